# SPDX-License-Identifier: Apache-2.0
#
# keep_follow.sh RINGLOAD JSON_TOOL: a keeper follows a version folder. It publishes each new
# version, and stays at the last good version if a version is missing, damaged or wrong.

. "$(dirname "$0")/support.sh"
sockets=$(mktemp -d /tmp/ringload-follow-XXXXXX) # A socket's path is short.
socket=$sockets/s
run=$work/run
keeper=
trap '[ -z "$keeper" ] || kill $keeper 2>/dev/null; rm -rf "$work" "$sockets"' EXIT

mkdir "$run" "$work/deltas"
for v in 0 1 2 3 4 5 6; do
  "$ringload" make "$work/$v.safetensors" --bytes 3M --seed "$v" >/dev/null || fail "make"
  [ "$v" -eq 0 ] || expect 0 "$ringload" delta "$work/$((v - 1)).safetensors" \
    "$work/$v.safetensors" -o "$work/deltas/v$v.delta.zt"
done

# add FILE NAME: makes a file of the folder visible at once.
add() {
  cp "$1" "$work/new" && mv "$work/new" "$run/$2"
}
start() {
  : >"$work/kept"
  : >"$work/keeper_err"
  "$ringload" keep --follow "model=$run" --interval 20 --socket "$socket" --no-progress \
    >"$work/kept" 2>"$work/keeper_err" </dev/null &
  keeper=$!
}
# kept LINE: waits until the keeper has printed the line.
kept() {
  prints 1 "$1" $keeper "$work/kept" "$work/keeper_err"
}
# serves VERSION: the attached model is the version.
serves() {
  attaches "$socket" "$work/$1.safetensors"
}

expect 1 "$ringload" keep --follow "model=$run" --socket "$socket"
complains 'the folder has no version'
expect 2 "$ringload" keep --socket "$socket"
expect 2 "$ringload" keep --follow "model=$run" --socket "$socket" --dtype bf16
expect 2 "$ringload" keep "model=$run" --follow "model=$run" --socket "$socket"

add "$work/0.safetensors" v0.safetensors
add "$work/deltas/v1.delta.zt" v1.delta.zt
start
kept '^model: version 1, '
serves 1
add "$work/deltas/v2.delta.zt" v2.delta.zt
kept '^model: version 2, '
serves 2

# Version 3 is missing.
add "$work/deltas/v4.delta.zt" v4.delta.zt
kept 'follow: .*v3.delta.zt: '
serves 2
# The missing version comes, but it is another one.
add "$work/deltas/v5.delta.zt" v3.delta.zt
kept 'follow: .*v3.delta.zt: .*the base of the delta has'
serves 2
# It comes damaged.
head -c 5000 "$work/deltas/v3.delta.zt" >"$work/short"
add "$work/short" v3.delta.zt
kill -0 $keeper || fail "keep ended"
serves 2
add "$work/deltas/v3.delta.zt" v3.delta.zt
kept '^model: version 4, '
serves 4

# A later full version goes past a damaged delta.
dd if=/dev/zero of="$work/zeros" bs=10000 count=1 2>/dev/null
add "$work/zeros" v5.delta.zt
kept 'follow: .*v5.delta.zt: '
serves 4
add "$work/6.safetensors" v6.safetensors
kept '^model: version 6, '
serves 6

# Without the files of the earlier versions, the next delta is applied to the version in memory.
cp "$work/5.safetensors" "$work/7.safetensors"
expect 0 "$ringload" delta "$work/6.safetensors" "$work/7.safetensors" -o "$work/deltas/v7.delta.zt"
mv "$run/v6.safetensors" "$work/gone"
add "$work/deltas/v7.delta.zt" v7.delta.zt
kept '^model: version 7, '
serves 7

# The reader of an old version keeps its version, and the keeper is killed at any moment.
kill -KILL $keeper
wait $keeper 2>/dev/null
mv "$work/gone" "$run/v6.safetensors"
add "$work/zeros" v7.delta.zt
start
kept '^model: version 6, '
kept 'follow: .*v7.delta.zt: '
serves 6
kill -TERM $keeper
wait $keeper
code=$?
keeper=
[ $code -eq 143 ] || fail "keep ends with $code and not 143"
