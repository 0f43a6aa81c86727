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
"$json" get cells best.gb_per_s best.block machine.kernel <"$work/out" >/dev/null || fail "JSON"

# shellcheck disable=SC2086
expect 1 "$bench" sweep "$file" $small --html "$work/absent/page.html"
complains 'absent/page.html: writing the page: No such file or directory'

if command -v fio >/dev/null; then
  expect 0 "$bench" sweep "$file" --blocks 1M --bytes-in-flight 2M --pages thp --seconds 0.1 \
    --runs 1 --with-fio --json
  "$json" get best.fio_gb_per_s best.rate_ratio best.cpu_ratio <"$work/out" >/dev/null || fail "fio"
else
  expect 1 "$bench" run "$file" --with-fio
  complains '^uring-bench: error: --with-fio: there is no fio here$'
fi
