# SPDX-License-Identifier: Apache-2.0
#
# sweep.sh URING_BENCH JSON_TOOL RINGLOAD: a small sweep, as text, JSON and a page.

. "$(dirname "$0")/bench_support.sh"

file=$work/one.bin
head -c 8000000 /dev/urandom >"$file"
small='--blocks 512K,1M --bytes-in-flight 1M,2M --pages 4k,thp --seconds 0.02 --runs 2'

# shellcheck disable=SC2086
expect 0 "$bench" sweep "$file" $small --html "$work/page.html"
silent
grep -q '^best: ' "$work/out" || fail "no best cell"
grep -q '^GB/s on 4k pages' "$work/out" || fail "no table"
[ "$(grep -o '<svg' "$work/page.html" | wc -l)" -eq 6 ] || fail "charts"
grep -q '</html>' "$work/page.html" || fail "the page is not whole"

# shellcheck disable=SC2086
expect 0 "$bench" sweep "$file" $small --json
fits uring-bench/sweep
"$json" get cells best.gb_per_s best.block machine.kernel <"$work/out" >/dev/null || fail "JSON"

# A place where no page can be is said at once, and not after the two minutes of a whole sweep.
expect 1 timeout 60 "$bench" sweep "$file" --html "$work/absent/page.html"
complains 'absent/page.html: writing the page: No such file or directory'

# What is read is not written, whatever its name; nor what is no regular file.
mkdir "$work/folder"
cp "$file" "$work/folder/two.bin"
ln "$work/folder/two.bin" "$work/hard.html"
ln -s folder/two.bin "$work/soft.html"
for page in "$work/folder/two.bin" "$work/hard.html" "$work/soft.html"; do
  for target in "$work/folder" "$work/folder/two.bin"; do
    expect 2 timeout 60 "$bench" sweep "$target" --html "$page"
    complains '^uring-bench: usage: --html: .* is the file that is read'
  done
done
cmp "$file" "$work/folder/two.bin" || fail "the target was written"
mkfifo "$work/fifo"
for page in "$work/folder" "$work/fifo" /dev/null; do
  expect 2 timeout 60 "$bench" sweep "$file" --html "$page"
  complains '^uring-bench: usage: --html: .* not a regular file'
done

# Until there is a page, what was there stays; and where nothing was, nothing is left.
echo before >"$work/page.html"
for page in page new; do
  expect 130 timeout --foreground --preserve-status -s INT 1 \
    "$bench" sweep "$file" --html "$work/$page.html"
  complains '^uring-bench: interrupted$'
done
[ "$(cat "$work/page.html")" = before ] || fail "the page before was lost"
[ ! -e "$work/new.html" ] || fail "a page that is none"

# What was measured is not lost with the page. A limit on files stands for a full disk; what is
# printed goes through a pipe.
{
  # shellcheck disable=SC2086
  (
    ulimit -f 0
    exec "$bench" sweep "$file" $small --html "$work/new.html" 2>&1
  )
  echo "exit code $?"
} | cat >"$work/out"
grep -q '^best: ' "$work/out" || fail "the results were lost"
grep -q '^uring-bench: error: .*new.html: writing the page: File too large$' "$work/out" ||
  fail "no error"
grep -q '^exit code 1$' "$work/out" || fail "$(tail -n 1 "$work/out")"
[ ! -e "$work/new.html" ] || fail "half a page"

if command -v fio >/dev/null; then
  expect 0 "$bench" sweep "$file" --blocks 1M --bytes-in-flight 2M --pages thp --seconds 0.1 \
    --runs 1 --with-fio --json
  "$json" get best.fio_gb_per_s best.rate_ratio best.cpu_ratio <"$work/out" >/dev/null || fail "fio"
else
  expect 1 "$bench" run "$file" --with-fio
  complains '^uring-bench: error: --with-fio: there is no fio here$'
fi
