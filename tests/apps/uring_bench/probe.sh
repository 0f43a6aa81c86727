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
[ "$(ls -A "$work/folder")" = one.bin ] || fail "left behind: $(ls -A "$work/folder")"
expect 0 "$bench" probe "$work/folder/one.bin" --json
"$json" get findings <"$work/out" >/dev/null || fail "JSON"
expect 1 "$bench" probe "$work/absent"
complains 'absent: No such file or directory'
