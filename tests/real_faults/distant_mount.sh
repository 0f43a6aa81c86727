# SPDX-License-Identifier: Apache-2.0
#
# distant_mount.sh RINGLOAD SLOW_MOUNT: loads from a FUSE mount with latency, jitter, stalls, short
# answers and errors end with the right bytes or with an error that names the file.

. "$(dirname "$0")/support.sh"
slow_mount=$2
need_root
need umount
[ -e /dev/fuse ] || skip "there is no /dev/fuse here"

mkdir "$work/models" "$work/mount"
"$ringload" make "$work/models/m.safetensors" --bytes 96M --shape llama --no-progress \
  >/dev/null || fail "make"
"$ringload" sum "$work/models/m.safetensors" >"$work/sums" || fail "sum"
"$ringload" make "$work/models/small.safetensors" --bytes 256K --no-progress >/dev/null ||
  fail "make"
"$ringload" sum "$work/models/small.safetensors" >"$work/small_sums" || fail "sum"

# served OPTION...: mounts the folder in place of the mount before.
served() {
  umount "$work/mount" 2>/dev/null
  "$slow_mount" "$work/models" "$work/mount" "$@" >"$work/served" 2>&1 &
  for _ in $(seq 100); do
    grep -q mounted "$work/served" && return
    sleep 0.05
  done
  skip "a folder cannot be mounted: $(cat "$work/served")"
}
undo='umount -l "$work/mount"'
model=$work/mount/m.safetensors

# sums_are_right OPTION...
sums_are_right() {
  expect 0 "$ringload" sum "$model" --no-progress "$@"
  cmp -s "$work/sums" "$work/out" || fail "other sums with: $*"
}

served --latency 2 --jitter 3 --bandwidth 400
sums_are_right
sums_are_right --engine threads
sums_are_right --route buffered
sums_are_right --slots 2 --slot-bytes 64K
sums_are_right --window 48M

# A mount that only its latency limits is given more bytes in flight than the first slots have.
served --latency 60
expect 0 "$ringload" load "$model" --json
in_flight=$(sed -n 's/.*"bytes_in_flight": *\([0-9]*\).*/\1/p' "$work/out")
[ "$in_flight" -gt 33554432 ] || fail "$in_flight bytes in flight on a distant mount"

# Every twentieth request stalls.
served --latency 1 --stalled 0.05 --stall 400 --seed 7
sums_are_right
sums_are_right --engine threads

# Direct reads that stall are issued a second time.
served --latency 1 --stalled 0.05 --stall 3000 --seed 7
field() { sed -n "s/.*\"$1\": *\([0-9]*\).*/\1/p" "$work/out"; }
overtaken=0
for _ in 1 2 3 4 5; do
  expect 0 "$ringload" load "$model" --json
  overtaken=$((overtaken + $(field second_reads_won)))
  [ "$overtaken" -eq 0 ] || break
done
[ "$overtaken" -gt 0 ] || fail "no second read was faster than a stall"

# So are reads of headers.
for seed in 1 2 3 4 5 6; do
  served --latency 1 --stalled 0.3 --stall 300 --seed "$seed"
  expect 0 "$ringload" sum "$work/mount/small.safetensors" --no-progress
  cmp -s "$work/small_sums" "$work/out" || fail "other sums of a header that stalls"
done

served --short 0.3 --seed 3
sums_are_right --route direct

served --errors 0.2 --seed 5
expect 1 "$ringload" load "$model"
complains 'm.safetensors.*Input/output error'
