# SPDX-License-Identifier: Apache-2.0
#
# bad_sectors.sh RINGLOAD: a disk with a bad spot. A load that meets it says which tensor; what lies
# elsewhere loads. And a disk that answers late: the load waits for it, and Ctrl-C does not hang.

. "$(dirname "$0")/support.sh"
need_root
need losetup dmsetup mkfs.ext4

truncate -s 64M "$work/disk"
attempt "no loop device" losetup --find --show "$work/disk"
loop=$(cat "$work/attempt")
undo="losetup -d $loop"
name=ringload-test-$$
sectors=$(blockdev --getsz "$loop")
attempt "no device mapper" dmsetup create "$name" --table "0 $sectors linear $loop 0"
undo="umount $work/mount; dmsetup remove $name; $undo"
attempt "no file system" mkfs.ext4 -q "/dev/mapper/$name"
mkdir "$work/mount"
attempt "no mount" mount "/dev/mapper/$name" "$work/mount"
file=$work/mount/model.safetensors
"$ringload" make "$file" --bytes 20M --tensors 20 >/dev/null || fail "make"
sync

# The file's middle: its first extent holds it, or the file system is odd.
need filefrag
first=$(filefrag -e -b512 "$file" | sed -n 's/^ *0: *0\.\. *\([0-9]*\): *\([0-9]*\)\.\..*/\2/p')
[ -n "$first" ] || skip "the file's place on the disk is not known"
bad=$((first + 20480))
table="0 $bad linear $loop 0
$bad 8 error
$((bad + 8)) $((sectors - bad - 8)) linear $loop $((bad + 8))"
reload() {
  printf '%s\n' "$1" | dmsetup reload "$name" && dmsetup suspend "$name" && dmsetup resume "$name"
}
attempt "no error target" reload "$table"
echo 3 >/proc/sys/vm/drop_caches 2>/dev/null
for engine in ring threads; do
  for route in auto direct buffered; do
    dd if="$file" iflag=nocache count=0 status=none
    expect 1 "$ringload" load "$file" --engine $engine --route $route
    complains "model.safetensors: tensor '.*': byte .*: Input/output error"
  done
done
expect 0 "$ringload" ls "$file"

# Whole again, but 100 ms late.
reload "0 $sectors delay $loop 0 100" 2>/dev/null || skip "no delay target; bad sectors passed"
dd if="$file" iflag=nocache count=0 status=none
expect 0 "$ringload" load "$file"
dd if="$file" iflag=nocache count=0 status=none
expect 130 timeout --preserve-status -s INT 0.3 "$ringload" load "$file" --slots 1 --slot-bytes 64K
