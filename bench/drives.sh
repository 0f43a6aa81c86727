#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# drives.sh BUILD [FAST_MIB]: the load from one drive while another, which is slower, is loaded from
# by the same loader. The drives are two loop devices; the slow one is slowed by the block
# controller, of version 1, to 20 MB/s. Needs root, losetup and that controller.

set -eu
build=$1
mib=${2:-1024}
slow_bytes_per_s=20971520
group=/sys/fs/cgroup/blkio/ringload-drives
work=$(mktemp -d)
fast=
slow=

clean() {
  echo $$ >/sys/fs/cgroup/blkio/cgroup.procs 2>/dev/null || true
  for each in fast slow; do umount "$work/$each" 2>/dev/null || true; done
  for each in $fast $slow; do losetup -d "$each" || true; done
  rmdir "$group" 2>/dev/null || true
  rm -rf "$work"
}
trap clean EXIT

if ! mkdir "$group" 2>/dev/null || [ ! -e "$group/blkio.throttle.read_bps_device" ]; then
  echo "skipped: no block controller of version 1 that can be used here"
  exit 77
fi

# drive NAME MIB: a file system of its own on a loop device, whose name is printed.
drive() {
  truncate -s "$2M" "$work/$1.img"
  loop=$(losetup -f --show --direct-io=on "$work/$1.img")
  mkfs.ext4 -q "$loop"
  mkdir "$work/$1"
  mount "$loop" "$work/$1"
  echo "$loop"
}

fast=$(drive fast $((mib * 5 / 4 + 64)))
slow=$(drive slow 768)
ringload="$build/apps/ringload/ringload"
"$ringload" make "$work/fast/model.safetensors" --bytes "${mib}M" --shape llama \
  --no-progress >/dev/null
"$ringload" make "$work/slow/model.safetensors" --bytes 160M --shape llama \
  --no-progress >/dev/null
sync
echo "$(stat -c '%Hr:%Lr' "$slow") $slow_bytes_per_s" >"$group/blkio.throttle.read_bps_device"
echo $$ >"$group/cgroup.procs"
"$build/bench/bench_devices" "$work/fast/model.safetensors" --slow "$work/slow/model.safetensors"
