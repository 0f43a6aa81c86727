# SPDX-License-Identifier: Apache-2.0
#
# full_disk.sh RINGLOAD: make onto a disk that is full, and sum's checksum list. An error, and
# nothing under the final name.

. "$(dirname "$0")/support.sh"
need_root
mkdir "$work/mount"
attempt "no mount" mount -t tmpfs -o size=4m none "$work/mount"
undo="umount $work/mount"

expect 1 "$ringload" make "$work/mount/m.safetensors" --bytes 8M
complains 'No space left on device'
expect 1 "$ringload" make "$work/mount/m" --bytes 8M --shards 3
complains 'No space left on device'
[ -z "$(ls -A "$work/mount")" ] || fail "leaves $(ls -A "$work/mount")"

# Converted, and appended to: nothing new, or what was there before.
expect 0 "$ringload" make "$work/source.safetensors" --bytes 8M
for target in c.zt c.safetensors c; do
  expect 1 "$ringload" convert "$work/source.safetensors" "$work/mount/$target"
  complains 'No space left on device'
done
[ -z "$(ls -A "$work/mount")" ] || fail "convert leaves $(ls -A "$work/mount")"
first=$("$ringload" sum "$work/source.safetensors" | sed -n '1s/.*  //p')
expect 0 "$ringload" convert "$work/source.safetensors" "$work/rest.zt" --except "$first"
expect 0 "$ringload" convert "$work/source.safetensors" "$work/mount/c.zt" --select "$first"
cp "$work/mount/c.zt" "$work/before.zt"
expect 1 "$ringload" append "$work/mount/c.zt" --from "$work/rest.zt"
complains 'No space left on device'
cmp "$work/before.zt" "$work/mount/c.zt" || fail "append that found no room changed the file"
rm "$work/mount/c.zt"

expect 0 "$ringload" make "$work/good" --bytes 100000 --tensors 1000
echo before >"$work/mount/sums"
dd if=/dev/zero of="$work/mount/rest" bs=4096 status=none 2>/dev/null
expect 1 "$ringload" sum "$work/good" --checksums "$work/mount/sums"
complains 'No space left on device'
[ "$(cat "$work/mount/sums")" = before ] || fail "a list that found no room replaced another"
