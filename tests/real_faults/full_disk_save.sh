# SPDX-License-Identifier: Apache-2.0
#
# full_disk_save.sh SAVE_TOOL: a save onto a disk that has too little room: an error that says so,
# what was there before, and nothing beside it.

. "$(dirname "$0")/support.sh"
need_root
mkdir "$work/mount"
attempt "no mount" mount -t tmpfs -o size=4m none "$work/mount"
undo="umount $work/mount"
dd if=/dev/urandom of="$work/memory" bs=1M count=8 status=none
echo "U8 0 1000000 = small" >"$work/small"
echo "U8 0 8000000 = large" >"$work/large"
echo "U8 0 3500000 = medium" >"$work/medium"

for options in "$work/mount/m.safetensors" "$work/mount/m"; do
  "$ringload" "$work/memory" "$options" <"$work/small" || fail "there was room"
  before=$(cd "$work/mount" && find . -type f -exec sha256sum {} +)
  for size in large medium; do
    expect 1 "$ringload" "$work/memory" "$options" <"$work/$size"
    complains 'No space left on device\|bytes are needed, but the file system has'
    [ "$(cd "$work/mount" && find . -type f -exec sha256sum {} +)" = "$before" ] ||
      fail "$options is not what it was"
  done
  rm -r "$options"
done
