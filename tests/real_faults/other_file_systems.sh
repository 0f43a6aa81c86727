# SPDX-License-Identifier: Apache-2.0
#
# other_file_systems.sh RINGLOAD: read-only and overlay file systems, and one in memory. What is
# there loads by each engine and route that can be had, with the bytes that were written.

. "$(dirname "$0")/support.sh"
need_root
mkdir "$work/lower" "$work/upper" "$work/inner" "$work/mount" "$work/memory"
"$ringload" make "$work/lower/m" --bytes 5M --shards 2 --order name >/dev/null || fail "make"
expect 0 "$ringload" sum "$work/lower/m"
cp "$work/out" "$work/wanted"

loads() {
  for engine in auto ring threads; do
    for route in auto direct buffered; do
      code=0
      timeout 120 "$ringload" sum "$1" --engine $engine --route $route >"$work/out" 2>"$work/err" ||
        code=$?
      case $code in
        0) cmp "$work/out" "$work/wanted" || fail "other bytes: $1 by $engine, $route" ;;
        1)
          [ "$engine" = ring ] || [ $route = direct ] || fail "$(cat "$work/err")"
          complains '^ringload: error: '
          ;;
        *) fail "exit code $code: $1 by $engine, $route" ;;
      esac
    done
  done
}

attempt "no bind mount" mount --bind "$work/lower" "$work/mount"
undo="umount $work/mount"
attempt "no read-only mount" mount -o remount,bind,ro "$work/mount"
loads "$work/mount/m"
expect 1 "$ringload" make "$work/mount/x.safetensors" --bytes 1K
complains 'Read-only file system'
umount "$work/mount"

attempt "no tmpfs" mount -t tmpfs none "$work/memory"
undo="umount $work/memory"
cp -r "$work/lower/m" "$work/memory/m"
loads "$work/memory/m"

mkdir "$work/memory/upper" "$work/memory/inner"
attempt "no overlay" mount -t overlay none \
  -o "lowerdir=$work/lower,upperdir=$work/memory/upper,workdir=$work/memory/inner" "$work/mount"
undo="umount $work/mount; $undo"
loads "$work/mount/m"
# Copied up: a file of the upper layer.
touch "$work/mount/m"/*.safetensors
loads "$work/mount/m"
