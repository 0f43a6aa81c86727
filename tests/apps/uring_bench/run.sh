# SPDX-License-Identifier: Apache-2.0
#
# run.sh URING_BENCH JSON_TOOL RINGLOAD: every way of reading gives the figures that it promises.

. "$(dirname "$0")/bench_support.sh"

file=$work/one.bin
head -c 9000001 /dev/urandom >"$file"

# One pass reads all bytes, the last block shorter, whatever the way.
one_pass() {
  expect 0 "$bench" run "$file" --json --seconds 60 --bytes 9000001 "$@"
  silent
  [ "$(measured bytes)" -eq 9000001 ] || fail "bytes $(measured bytes): $*"
  [ "$(measured short_reads)" -eq 0 ] || fail "short reads: $*"
}
for into in slots fresh populated; do
  for engine in ring threads; do
    one_pass --engine $engine --into $into --block 1M --depth 3
    [ "$(measured reads)" -eq 9 ] || fail "reads $(measured reads)"
    [ "$(measured engine)" = $engine ] || fail "engine"
    [ "$(measured into)" = $into ] || fail "into"
    [ "$(measured cached_share_before)" = 0 ] || fail "not cold: $(measured cached_share_before)"
    [ "$(measured cached_share_after)" = 0 ] || fail "direct reads filled the cache"
  done
  one_pass --engine mmap --route buffered --into $into --block 64K --depth 2
done
one_pass --route buffered --block 512K
one_pass --state warm --route buffered --block 512K
[ "$(measured state)" = warm ] || fail "state"
one_pass --pattern rand --block 4K --depth 64
[ "$(measured reads)" -eq 2198 ] || fail "random reads $(measured reads)"
one_pass --registered-files --block 4K
one_pass --rings 2 --threads 2 --block 64K --depth 2
[ "$(measured bytes_in_flight)" -eq 524288 ] || fail "bytes in flight"
one_pass --pages 4k
[ "$(measured pages)" = 4k ] || fail "pages"
one_pass --block 512 --bytes-in-flight 4K

# A kernel before 5.11 has a polling thread for root alone; then the line says so.
if "$bench" run "$file" --sqpoll --seconds 0.05 --json >"$work/out" 2>"$work/err"; then
  [ "$(measured ring_flags)" = SQPOLL ] || fail "ring flags $(measured ring_flags)"
else
  complains 'io_uring_setup: '
fi

# What is registered counts against a limit, so it may be refused; then the line says so.
if "$bench" run "$file" --registered-buffers --json --seconds 0.05 >"$work/out" 2>"$work/err"; then
  [ "$(measured registered_buffers)" = true ] || fail "registered_buffers"
else
  complains 'registered-buffers: .*RLIMIT_MEMLOCK'
fi

# The fields that programs rely on.
expect 0 "$bench" run "$file" --json --seconds 0.1 --runs 3
fits uring-bench/run
"$json" get gb_per_s iops latency_us.p50 latency_us.p90 latency_us.p99 latency_us.p999 \
  latency_us.max cpu_s_per_gib cpu_s_per_gib_with_kernel bytes seconds engine block depth pages \
  route longest_submit_seconds kernel_workers punts request_bytes resubmits foreign_processors \
  <"$work/out" >"$work/values" || fail "a field is missing"
case $(measured runs_gb_per_s) in *,*,*) ;; *) fail "three runs" ;; esac

# counts_workers: if the process of a run has a kernel worker, the run reports it. Direct reads on
# tmpfs need a kernel worker, because they cannot be submitted without waiting.
counts_workers() {
  shared=$(mktemp /dev/shm/uring-bench-XXXXXX 2>/dev/null) ||
    { echo "skipped: kernel workers: no file can be created in /dev/shm" && return; }
  trap 'rm -rf "$work" "$shared"' EXIT
  cp "$file" "$shared" || fail "cp"
  "$bench" run "$shared" --state as-is --json --seconds 1 >"$work/out" 2>"$work/err" &
  running=$!
  has_worker=no
  while kill -0 $running 2>/dev/null; do
    ! cat /proc/$running/task/*/comm 2>/dev/null | grep -q '^iou-wrk' || has_worker=yes
    sleep 0.05
  done
  if ! wait $running; then
    complains 'this file system gives no direct reads'
    echo "skipped: kernel workers: this kernel has no direct reads on tmpfs"
  elif [ $has_worker = no ]; then
    echo "skipped: kernel workers: this kernel uses no worker for direct reads on tmpfs"
  else
    [ "$(measured kernel_workers)" -gt 0 ] || fail "no kernel worker is reported"
    case $(measured punts) in
      null) echo "skipped: punts: tracepoints are not permitted" ;;
      0) fail "a kernel worker, but no read was passed to it" ;;
    esac
  fi
}
counts_workers

# As text, a line each.
expect 0 "$bench" run "$file" --seconds 0.05
grep -q '^rate .* GB/s' "$work/out" || fail "no rate"
grep -q '^page cache .*had 0.0 % before' "$work/out" || fail "no state"

# A folder's files, one after the other.
mkdir "$work/folder"
cp "$file" "$work/folder/a"
head -c 5000 "$file" >"$work/folder/b"
: >"$work/folder/empty"
expect 0 "$bench" run "$work/folder" --json --seconds 60 --bytes 9005001 --block 1M
[ "$(measured bytes)" -eq 9005001 ] || fail "folder: $(measured bytes)"

# The target is as it was.
cmp -s "$file" "$work/folder/a" || fail "the target was written"
[ "$(ls "$work/folder")" = "$(printf 'a\nb\nempty')" ] || fail "the folder was written"
