# SPDX-License-Identifier: Apache-2.0
#
# probe.sh URING_BENCH JSON_TOOL RINGLOAD: it says what is here, of a file and of a folder, and
# leaves nothing behind.

. "$(dirname "$0")/bench_support.sh"

mkdir "$work/folder"
head -c 3000000 /dev/urandom >"$work/folder/one.bin"
for path in "$work/folder/one.bin" "$work/folder" .; do
  expect 0 "$bench" probe "$path"
  silent
  for topic in machine io_uring memory path drive gpu; do
    grep -q "^$topic\$" "$work/out" || fail "nothing of $topic: $path"
  done
  grep -q '  ok    a direct read ' "$work/out" || fail "no direct read: $path"
done

# In a folder nothing ever has a name, so nothing can be left behind.
touched=$(stat -c %y "$work/folder")
expect 0 "$bench" probe "$work/folder"
[ "$(ls -A "$work/folder")" = one.bin ] || fail "left behind: $(ls -A "$work/folder")"
[ "$(stat -c %y "$work/folder")" = "$touched" ] || fail "a name came and went"
# Where there are no such files it says so, and goes on.
expect 0 "$bench" probe /proc
grep -q '  note  a file to try .* without a name (O_TMPFILE)' "$work/out" || fail "of /proc"
grep -q '^drive$' "$work/out" || fail "nothing after /proc"

# What it says of huge pages, of which the loader's slots take 64 MiB at once, or none.
needed=32
pages=/sys/kernel/mm/hugepages/hugepages-2048kB
# says_of_pages NR FREE
says_of_pages() {
  said="hugetlb pages .* $2 of $1 reserved are free; with --huge-pages reserved"
  if [ "$2" -ge "$needed" ]; then
    grep -q "  ok    $said" "$work/out" || fail "$2 of $1"
  else
    grep -q "  note  $said" "$work/out" || fail "$2 of $1"
    grep -q "sysctl vm.nr_hugepages=$(($1 - $2 + needed)) " "$work/out" || fail "advice at $2 of $1"
  fi
}
if [ -d $pages ]; then
  expect 0 "$bench" probe "$work/folder/one.bin"
  says_of_pages "$(cat $pages/nr_hugepages)" "$(cat $pages/free_hugepages)"
fi
# Other numbers, where we may show them.
for numbers in "16 16" "$needed $needed" "$needed 1"; do
  mkdir -p "$work/pages"
  echo "${numbers% *}" >"$work/pages/nr_hugepages"
  echo "${numbers#* }" >"$work/pages/free_hugepages"
  if unshare --mount --map-root-user sh -c 'mount --bind "$2" "$3" && exec "$1" probe "$4"' \
    sh "$bench" "$work/pages" $pages "$work/folder/one.bin" >"$work/out" 2>"$work/err"; then
    # shellcheck disable=SC2086
    says_of_pages $numbers
  else
    echo "not checked: $numbers huge pages: $(cat "$work/err")"
  fi
done

expect 0 "$bench" probe "$work/folder/one.bin" --json
fits uring-bench/probe
"$json" get findings <"$work/out" >/dev/null || fail "JSON"
expect 1 "$bench" probe "$work/absent"
complains 'absent: No such file or directory'
