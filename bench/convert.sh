#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# convert.sh RINGLOAD FOLDER [GIB [TURNS]]: what `ringload convert` reaches beside reading alone,
# writing alone, and fio doing both at once; and its compression beside `zstd -T2`; in turns, in
# FOLDER, which needs three times as much room. What is read is dropped from the page cache first.
# Needs fio and zstd. fio writes from huge pages if 32 are free (sysctl vm.nr_hugepages=64), twice
# as fast as from small ones.
set -eu
ringload=$1
folder=$2
gib=${3:-8}
turns=$(seq "${4:-3}")
work=$(mktemp -d "$folder/convert-XXXXXX")
trap 'rm -rf "$work"' EXIT

source=$work/source.safetensors
"$ringload" make "$source" --bytes "${gib}GiB" --shape llama --no-progress
bytes=$(stat -c %s "$source")

memory=malloc
if [ "$(awk '/^HugePages_Free/ { print $2 }' /proc/meminfo)" -ge 32 ]; then memory=shmhuge; fi

drop() { dd if="$1" iflag=nocache count=0 status=none; }

# rate NAME BYTES COMMAND...: GB/s, and the most memory that it had.
rate() {
  name=$1
  of=$2
  shift 2
  python3 - "$name" "$of" "$@" <<'PYTHON'
import resource, subprocess, sys, time
begun = time.monotonic()
subprocess.run(sys.argv[3:], check=True, stdout=subprocess.DEVNULL)
seconds = time.monotonic() - begun
peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
speed = int(sys.argv[2]) / seconds / 1e9
print(f"{sys.argv[1]:34} {speed:6.2f} GB/s  {seconds:7.2f} s  {peak:6.0f} MiB")
PYTHON
}

# both: what fio reads and writes at once, each, until both are done; by its own clock, without the
# time that it takes to start.
both() {
  fio --output-format=json --name=global --bs=4M --iodepth=5 --ioengine=io_uring --direct=1 \
    --size="$bytes" --mem="$memory" --name=r --rw=read --filename="$source" \
    --name=w --rw=write --filename="$work/fio" --end_fsync=1 --fallocate=native >"$work/fio.json"
  python3 - "$bytes" "$work/fio.json" <<'PYTHON'
import json, sys
jobs = json.load(open(sys.argv[2]))["jobs"]
seconds = max(job["job_runtime"] for job in jobs) / 1000
speed = int(sys.argv[1]) / seconds / 1e9
print(f"{'each of both at once (fio)':34} {speed:6.2f} GB/s  {seconds:7.2f} s")
PYTHON
}

echo "$bytes bytes of a Llama's shapes in BF16, $(nproc) processors"
for turn in $turns; do
  drop "$source"
  rate "read alone (load --window 256M)" "$bytes" "$ringload" load "$source" --window 256M
  rate "write alone (fio, 4M, depth 5, $memory)" "$bytes" \
    fio --name=w --filename="$work/fio" --rw=write \
    --bs=4M --iodepth=5 --ioengine=io_uring --direct=1 --size="$bytes" --end_fsync=1 \
    --fallocate=native --mem="$memory" --output=/dev/null
  rm -f "$work/fio"
  drop "$source"
  both
  rm -f "$work/fio"
  drop "$source"
  rate "convert to safetensors" "$bytes" "$ringload" convert "$source" "$work/out.safetensors"
  rm -f "$work/out.safetensors"
  drop "$source"
  rate "convert to .zt" "$bytes" "$ringload" convert "$source" "$work/out.zt"
  rm -f "$work/out.zt"
done

# Compression: of 1 GiB, which the page cache has. Like weights in BF16: one byte of two is noise,
# and the other has few values.
small=$work/small.safetensors
python3 - "$small" <<'PYTHON'
import json, os, sys
tensor = 64 << 20
header = json.dumps({f"t{i}": {"dtype": "BF16", "shape": [tensor // 2],
                               "data_offsets": [i * tensor, (i + 1) * tensor]}
                     for i in range(16)}).encode()
header += b" " * (-len(header) % 8)
few = bytes(0x3B + (i & 3) for i in range(256))
block = bytearray(2 << 20)
with open(sys.argv[1], "wb") as f:
    f.write(len(header).to_bytes(8, "little") + header)
    for _ in range(16 * tensor // len(block)):
        block[0::2] = os.urandom(1 << 20)
        block[1::2] = os.urandom(1 << 20).translate(few)
        f.write(block)
PYTHON
bytes=$(stat -c %s "$small")
cat "$small" >/dev/null
for turn in $turns; do
  rate "zstd -T2 -3" "$bytes" zstd -q -f -T2 -3 "$small" -o "$work/small.zst"
  rate "convert --zstd 3" "$bytes" "$ringload" convert "$small" "$work/small.zt" --zstd 3
  ls -l "$work/small.zst" "$work/small.zt" | awk '{print "  " $5 " bytes"}'
  rm -f "$work/small.zst" "$work/small.zt"
done
