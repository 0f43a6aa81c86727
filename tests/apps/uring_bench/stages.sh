# SPDX-License-Identifier: Apache-2.0
#
# stages.sh URING_BENCH JSON_TOOL RINGLOAD: a sharded checkpoint's stages.

. "$(dirname "$0")/bench_support.sh"

"$ringload" make "$work/model" --bytes 40M --shards 2 --no-progress >/dev/null || fail "make"
expect 0 "$bench" stages "$work/model" --runs 2
silent
grep -q '^The wall is \|^Inconclusive: ' "$work/out" || fail "no wall"
expect 0 "$bench" stages "$work/model" --runs 1 --json
fits uring-bench/stages
for stage in disk copies both loader kept; do
  [ -n "$(measured stages.$stage.gb_per_s)" ] || fail "stage $stage"
done
[ -z "$(measured stages.fio.gb_per_s 2>/dev/null)" ] || fail "fio, which was not asked"
case $(measured conclusive) in true | false) ;; *) fail "conclusive" ;; esac
case $(measured wall) in disk | copies) ;; *) fail "wall $(measured wall)" ;; esac
expect 1 "$bench" stages "$work/absent"
complains 'absent'
expect 2 "$bench" stages "$work/model" --device nonsense
complains 'nonsense'

# What was meant by "auto" is said.
expect 0 "$bench" stages "$work/model" --runs 1 --device auto --json
case $(measured device) in host | cuda:0) ;; *) fail "device $(measured device)" ;; esac
expect 0 "$bench" stages "$work/model" --runs 1 --device auto
grep -q ' in turns, into \(host\|cuda:0\)$' "$work/out" || fail "into what"

# With limits of one's own.
expect 0 "$bench" stages "$work/model" --runs 1 --slots 4 --slot-bytes 1M --bytes-in-flight 2M \
  --copy-threads 2 --json
[ "$(measured pinned_bytes_peak)" -le 4194304 ] || fail "pinned $(measured pinned_bytes_peak)"
[ "$(measured limits.bytes_in_flight)" -eq 2097152 ] || fail "limits"
expect 1 "$bench" stages "$work/model" --slots 1025
complains '^uring-bench: error: --slots: the value is 1,025, expected 1 to 1,024'
if command -v fio >/dev/null; then
  expect 0 "$bench" stages "$work/model" --runs 2 --with-fio
  silent
  grep -q '^Of fio: the drive alone ' "$work/out" || fail "no ratio to fio"
  expect 0 "$bench" stages "$work/model" --runs 1 --with-fio --json
  for stage in fio disk loader kept; do
    [ -n "$(measured stages.$stage.cpu_ratio)" ] || fail "ratio of stage $stage"
  done
else
  expect 1 "$bench" stages "$work/model" --with-fio
  complains '^uring-bench: error: --with-fio: there is no fio here$'
fi
