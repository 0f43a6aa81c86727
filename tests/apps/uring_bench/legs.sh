# SPDX-License-Identifier: Apache-2.0
#
# legs.sh URING_BENCH JSON_TOOL RINGLOAD: a sharded checkpoint's four legs.

. "$(dirname "$0")/bench_support.sh"

"$ringload" make "$work/model" --bytes 40M --shards 2 --no-progress >/dev/null || fail "make"
expect 0 "$bench" legs "$work/model" --runs 2
silent
grep -q '^The wall is ' "$work/out" || fail "no wall"
expect 0 "$bench" legs "$work/model" --runs 1 --json
for leg in disk copies both loader; do
  [ -n "$(measured legs.$leg.gb_per_s)" ] || fail "leg $leg"
done
case $(measured wall) in disk | copies) ;; *) fail "wall $(measured wall)" ;; esac
expect 1 "$bench" legs "$work/absent"
complains 'absent'
expect 2 "$bench" legs "$work/model" --device nonsense
complains 'nonsense'
