# SPDX-License-Identifier: Apache-2.0
#
# keep.sh RINGLOAD JSON_TOOL: models that one process keeps, and others attach.

. "$(dirname "$0")/support.sh"
socket=$work/s
# A socket's path is short.
[ ${#socket} -le 107 ] || { socket=$(mktemp -u /tmp/ringload-keep-XXXXXX); }

"$ringload" make "$work/one.safetensors" --bytes 9M --seed 1 >/dev/null || fail "make"
"$ringload" make "$work/two" --bytes 4M --shards 3 --seed 2 >/dev/null || fail "make"

"$ringload" keep "first=$work/one.safetensors" "$work/two" --socket "$socket" --no-progress \
  >"$work/kept" 2>"$work/keeper_err" &
keeper=$!
trap 'kill $keeper 2>/dev/null; rm -rf "$work" "$socket"' EXIT
tries=0
until [ "$(wc -l <"$work/kept")" -eq 2 ]; do
  kill -0 $keeper 2>/dev/null || fail "keep ended: $(cat "$work/keeper_err")"
  tries=$((tries + 1))
  [ $tries -lt 600 ] || fail "keep does not come up"
  sleep 0.05
done
grep -q '^first: [0-9]* tensors, 9437184 bytes$' "$work/kept" || fail "$(cat "$work/kept")"

for pair in "first $work/one.safetensors" "$work/two $work/two"; do
  "$ringload" sum "${pair#* }" >"$work/wanted" || fail "sum ${pair#* }"
  expect 0 "$ringload" sum "${pair%% *}" --attach "$socket"
  cmp "$work/wanted" "$work/out" || fail "attached ${pair%% *} differs"
done

expect 0 "$ringload" sum first --attach "$socket" --device host
expect 1 "$ringload" sum nothing --attach "$socket"
complains "model 'nothing': the keeper has no model of that name"
expect 1 "$ringload" keep "$work/two" --socket "$socket"
complains ': another program listens on this socket'
: >"$work/plain"
expect 1 "$ringload" keep "$work/two" --socket "$work/plain"
complains ': the path exists and is not a socket'
expect 2 "$ringload" keep "a=$work/two" "a=$work/one.safetensors" --socket "$work/other"
complains "'a' is the name of two models"
expect 2 "$ringload" sum first --attach "$socket" --json
expect 1 "$ringload" keep "$work/two"
expect 2 "$ringload" keep "$work/two" --socket "$socket" --mode 9

kill -TERM $keeper
wait $keeper
code=$?
[ $code -eq 143 ] || fail "keep ends with $code and not 143"
[ ! -e "$socket" ] || fail "the socket is still there"
expect 1 "$ringload" sum first --attach "$socket"
complains 'No such file or directory'
