# SPDX-License-Identifier: Apache-2.0
#
# formats.sh RINGLOAD JSON_TOOL DATA: every file of DATA that has a checksum list loads as the
# library that wrote it says, whatever its format; those that have none are refused in one line.

. "$(dirname "$0")/support.sh"
data=$3

# A build may be without the component hdf5; such a file is then refused by name.
hdf5=yes
if ! "$ringload" ls "$data/hdf5/keras.h5" >"$work/out" 2>"$work/err" &&
  grep -q 'component hdf5' "$work/err"; then
  hdf5=no
fi

loaded=0
for list in "$data"/*/*.manifest; do
  file=${list%.manifest}
  [ -f "$file" ] || continue  # A checkpoint of several files.
  case $file in *.h5) [ $hdf5 = yes ] || continue ;; esac
  types="--nameless BF16 --nameless F8_E4M3"
  expect 0 "$ringload" ls "$file" --json $types
  "$json" get files format tensors notes <"$work/out" >"$work/values" || fail "ls $file"
  names=$(grep -c '^{"name": .*"dtype"' "$work/out")
  [ "$names" -eq "$(wc -l <"$list")" ] || fail "$file has $names tensors"
  expect 0 "$ringload" verify "$file" --checksums "$list" $types
  loaded=$((loaded + 1))
done
[ "$loaded" -ge 20 ] || fail "only $loaded files were loaded"

for file in namespace script; do
  expect 1 "$ringload" ls "$data/torch/$file.pt"
  complains "^ringload: error: .*$file.pt: "
done
# One tensor that is not read leaves the others of its file.
expect 0 "$ringload" ls "$data/torch/quantised.pt"
grep -q "^note: .*cannot be loaded: 1, the first is 'q', " "$work/out" ||
  fail "no note: $(cat "$work/out")"
expect 0 "$ringload" load "$data/torch/quantised.pt" --select w
for selection in "--select q" ""; do
  # shellcheck disable=SC2086
  expect 1 "$ringload" load "$data/torch/quantised.pt" $selection
  complains "^ringload: error: .*quantised.pt: tensor 'q': .*quantised"
done
expect 1 "$ringload" load "$data/torch/conjugate.pt"
complains "^ringload: error: .*conjugate.pt: tensor 'w': .*conjugate"
expect 1 "$ringload" convert "$data/torch/conjugate.pt" "$work/conjugate.safetensors"
complains "^ringload: error: .*conjugate.pt: tensor 'w': .*conjugate"
expect 1 "$ringload" ls "$data/numpy/objects.npy"
complains 'Python objects'
expect 1 "$ringload" ls "$data/numpy/ml_dtypes.npz"
complains 'ml_dtypes'
expect 0 "$ringload" ls "$data/torch/namespace.pt" --profile reference
grep -q '^note: .*argparse.Namespace' "$work/out" || fail "no note: $(cat "$work/out")"
expect 2 "$ringload" ls "$data/numpy/ml_dtypes.npz" --nameless F32

if [ $hdf5 = yes ]; then
  for file in "$data"/hdf5/*.h5; do
    [ -f "$file.manifest" ] && continue
    expect 1 "$ringload" ls "$file"
    complains "^ringload: error: .*$file: "
  done
  expect 0 "$ringload" ls "$data/hdf5/lzf.h5" --profile reference
  grep -q "^note: .*'x'.*lzf" "$work/out" || fail "no note: $(cat "$work/out")"
  expect 0 "$ringload" ls "$data/hdf5/chunked.h5" --json
  grep -q '"encoding": "zlib+shuffle+chunked"' "$work/out" || fail "encoding"
fi

# What is not simply there is said, and what is composed.
expect 0 "$ringload" ls "$data/torch/sparse.pt" --json
"$json" get composites <"$work/out" | grep -q '"layout":"sparse_csr"' || fail "composites"
expect 0 "$ringload" ls "$data/numpy/deflated.npz" --json
grep -q '"encoding": "deflate+big_endian+strided"' "$work/out" || fail "encoding"

# A sharded checkpoint of PyTorch's: the index names the file of each tensor.
mkdir "$work/sharded"
cp "$data/torch/module.pt" "$work/sharded/pytorch_model-00001-of-00002.bin"
cp "$data/torch/lone.pt" "$work/sharded/pytorch_model-00002-of-00002.bin"
cat >"$work/sharded/pytorch_model.bin.index.json" <<'TEXT'
{"weight_map": {"weight": "pytorch_model-00001-of-00002.bin",
  "bias": "pytorch_model-00001-of-00002.bin",
  "pytorch_model-00002-of-00002": "pytorch_model-00002-of-00002.bin"}}
TEXT
expect 0 "$ringload" sum "$work/sharded"
[ "$(wc -l <"$work/out")" -eq 3 ] || fail "sharded: $(cat "$work/out")"

# Digests and attributes that a file holds: listed, and compared where that is asked for.
zt=$data/zt/all.zt
expect 0 "$ringload" ls "$zt" --json
grep -q '"name": "packed_crc".*"digest": "crc32c [0-9a-f]\{8\}"' "$work/out" || fail "digest"
grep -q '"name": "hashed".*"digest": "sha256 [0-9a-f]\{64\}"' "$work/out" || fail "digest"
grep -q '"layout": "quantized_group".*"attributes": {.*"bits": 4' "$work/out" || fail "attributes"
expect 0 "$ringload" load "$zt" --digests if-present --no-progress
expect 0 "$ringload" load "$zt" --select packed_crc --select hashed --digests require --no-progress
expect 1 "$ringload" load "$zt" --digests require --no-progress
complains 'all.zt: tensor .*: the file has no digest of the tensor'
offset=$("$ringload" ls "$zt" --select hashed --json | sed -n 's/.*"offset": \([0-9]*\).*/\1/p')
cp "$zt" "$work/damaged.zt"
printf '\377' | dd of="$work/damaged.zt" bs=1 seek="$offset" conv=notrunc status=none
expect 0 "$ringload" load "$work/damaged.zt" --no-progress
expect 1 "$ringload" load "$work/damaged.zt" --digests if-present --no-progress
complains "damaged.zt: tensor 'hashed': its sha256 is"

# The type of a tensor is text of the file. Its control characters do not reach the terminal.
expect 0 "$ringload" convert "$data/gguf/blocks.gguf" "$work/blocks.zt" --no-progress
escape=$(printf '\033')
LC_ALL=C sed "s/gguf_typedq8_k/gguf_typed${escape}[2J/" "$work/blocks.zt" >"$work/escape.zt"
expect 0 "$ringload" ls "$work/escape.zt"
grep -q '^q8_k  *\\x1b\[2J ' "$work/out" || fail "the type is not shown: $(cat "$work/out")"
[ "$(LC_ALL=C grep -c "$escape" "$work/out")" -eq 0 ] || fail "a control character of a type"
