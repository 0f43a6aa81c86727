# SPDX-License-Identifier: Apache-2.0
#
# sums.sh RINGLOAD JSON_TOOL ENGINE ROUTE: what lands is what the files hold, for checkpoints of
# many kinds.

. "$(dirname "$0")/support.sh"
engine=$3
route=$4

"$ringload" make "$work/probe.safetensors" --bytes 1M >/dev/null || fail "make"
if ! can_load "$work/probe.safetensors" --engine "$engine" --route "$route"; then
  [ "$engine $route" != "auto auto" ] || fail "$(cat "$work/err")"
  complains '^ringload: error: '
  skip "$(cat "$work/err")"
fi

# check SOURCE OPTION...
check() {
  "$ringload" ls "$1" --json >"$work/catalog" || fail "ls $1"
  sums_by_coreutils <"$work/catalog" >"$work/wanted"
  [ -s "$work/wanted" ] || fail "ls shows no tensor of $1"
  expect 0 "$ringload" sum "$@" --engine "$engine" --route "$route"
  silent
  cmp "$work/wanted" "$work/out" || fail "sum differs: $*"
}

check "$work/probe.safetensors"

# Cold, as make leaves it, and then from the page cache.
"$ringload" make "$work/odd.safetensors" --bytes 9999991 --tensors 37 --order name >/dev/null
check "$work/odd.safetensors"
cat "$work/odd.safetensors" >/dev/null
check "$work/odd.safetensors"
check "$work/odd.safetensors" --slots 1 --slot-bytes 64K --bytes-in-flight 1

"$ringload" make "$work/llama" --bytes 12M --shape llama --shards 3 >/dev/null
check "$work/llama"
check "$work/llama/model.safetensors.index.json" --slots 64 --slot-bytes 128K

# It is BF16 already, so that changes nothing; F32 does.
check "$work/llama" --dtype bf16
"$ringload" sum "$work/llama" --engine "$engine" --route "$route" --dtype f32 >"$work/f32" ||
  fail "sum --dtype f32"
cmp -s "$work/f32" "$work/out" && fail "sum --dtype f32 is sum"
[ "$(wc -l <"$work/f32")" = "$(wc -l <"$work/out")" ] || fail "sum --dtype f32 lacks tensors"

"$ringload" make "$work/one" --bytes 100001 --tensors 1 >/dev/null
check "$work/one"

# Tensors of 0 bytes: some, and all.
"$ringload" make "$work/few.safetensors" --bytes 9 --tensors 30 >/dev/null
check "$work/few.safetensors"
"$ringload" make "$work/none.safetensors" --bytes 0 --tensors 10 >/dev/null
check "$work/none.safetensors"
"$ringload" make "$work/none" --bytes 0 --tensors 10 --shards 4 --order name >/dev/null
check "$work/none"

# No tensor at all.
"$ringload" make "$work/empty.safetensors" --bytes 0 --tensors 0 >/dev/null
expect 0 "$ringload" sum "$work/empty.safetensors" --engine "$engine" --route "$route"
[ ! -s "$work/out" ] || fail "sums of no tensor"
