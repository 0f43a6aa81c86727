# SPDX-License-Identifier: Apache-2.0
#
# stages.sh URING_BENCH JSON_TOOL RINGLOAD: a sharded checkpoint's stages.

. "$(dirname "$0")/bench_support.sh"

"$ringload" make "$work/model" --bytes 40M --shards 2 --no-progress >/dev/null || fail "make"
expect 0 "$bench" stages "$work/model" --runs 2
silent
grep -q '^The wall is \|^Inconclusive: ' "$work/out" || fail "no wall"
! grep -q '^The rates count ' "$work/out" || fail "the bytes of the files are those of the tensors"
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

# A load of less than 2 MiB is measured, but its memory is not kept. The tensors of a compressed
# checkpoint need more memory than its file has bytes.
"$ringload" make "$work/small.safetensors" --bytes 64K --no-progress >/dev/null || fail "make"
expect 0 "$bench" stages "$work/small.safetensors" --runs 1 --json
fits uring-bench/stages
[ -n "$(measured stages.loader.gb_per_s)" ] || fail "no load of a small checkpoint"
[ -z "$(measured stages.kept.gb_per_s 2>/dev/null)" ] || fail "small memory was kept"
expect 0 "$bench" stages "$work/small.safetensors" --runs 1
grep -q '^No load reused the memory of an earlier load' "$work/out" || fail "no note"
header='{"a":{"dtype":"U8","shape":[9000000],"data_offsets":[0,9000000]}}'
{
  # shellcheck disable=SC2059
  printf "\\$(printf %03o ${#header})\\0\\0\\0\\0\\0\\0\\0%s" "$header"
  head -c 9000000 /dev/zero
} >"$work/zeros.safetensors"
if "$ringload" convert "$work/zeros.safetensors" "$work/zeros.zt" --zstd 3 --no-progress \
  >/dev/null 2>&1; then
  expect 0 "$bench" stages "$work/zeros.zt" --runs 1 --json
  [ -n "$(measured stages.kept.gb_per_s)" ] || fail "memory of compressed tensors was not kept"
  expect 0 "$bench" stages "$work/zeros.zt" --runs 1
  grep -q '^The rates count the bytes of the files, ' "$work/out" || fail "no bytes of the files"
fi

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
  grep -q '^Compared with fio: the drive alone ' "$work/out" || fail "no ratio to fio"
  expect 0 "$bench" stages "$work/model" --runs 1 --with-fio --json
  for stage in fio disk loader kept; do
    [ -n "$(measured stages.$stage.cpu_ratio)" ] || fail "ratio of stage $stage"
  done
else
  expect 1 "$bench" stages "$work/model" --with-fio
  complains '^uring-bench: error: --with-fio: there is no fio here$'
fi
