# SPDX-License-Identifier: Apache-2.0
#
# convert.sh RINGLOAD JSON_TOOL DATA: every file of DATA becomes .zt and safetensors with the same
# tensors, byte for byte; options are obeyed; what there is already is never touched.

. "$(dirname "$0")/support.sh"
data=$3
types="--nameless BF16 --nameless F8_E4M3"

# sums FILE: of all tensors.
sums() {
  "$ringload" sum "$@" >"$work/sums" 2>"$work/err" || fail "sum $*: $(cat "$work/err")"
  cat "$work/sums"
}

# A build may be without the component hdf5.
hdf5=yes
"$ringload" ls "$data/hdf5/keras.h5" >/dev/null 2>&1 || hdf5=no

converted=0
refused=0
for list in "$data"/*/*.manifest; do
  file=${list%.manifest}
  [ -f "$file" ] || continue  # A checkpoint of several files.
  case $file in *.h5) [ $hdf5 = yes ] || continue ;; esac
  sums "$file" $types >"$work/expected"
  rm -rf "$work"/out.*
  expect 0 "$ringload" convert "$file" "$work/out.zt" --zstd 1 --digest crc32c $types
  silent
  sums "$work/out.zt" >"$work/found"
  cmp "$work/expected" "$work/found" || fail "$file as .zt"
  code=0
  "$ringload" convert "$file" "$work/out.safetensors" $types 2>"$work/err" || code=$?
  if [ "$code" -ne 0 ]; then
    complains 'blocks of\|C128\|complex'
    [ ! -e "$work/out.safetensors" ] || fail "$file was refused, and is there"
    refused=$((refused + 1))
    continue
  fi
  sums "$work/out.safetensors" >"$work/found"
  cmp "$work/expected" "$work/found" || fail "$file as safetensors"
  converted=$((converted + 1))
done
[ "$converted" -ge 12 ] || fail "only $converted files were converted, $refused refused"

# Tensors that a reader leaves out, or a conversion leaves as they are, are told.
expect 0 "$ringload" convert "$data/onnx/types.onnx" "$work/told.zt"
grep -q '^note: .*tensors of strings are left out' "$work/out" || fail "no note of strings"
expect 0 "$ringload" convert "$data/numpy/stored.npz" "$work/told_f16.zt" --dtype f16
grep -q '^note: .*tensors are loaded unconverted' "$work/out" || fail "no note of integers"
[ "$(sort "$work/out" | uniq -d)" = "" ] || fail "a note twice: $(cat "$work/out")"

# Blocks and packed elements keep their types and shapes in .zt, and can be dequantised there.
typed() {
  "$ringload" ls "$1" --json | sed -n '/"original_shape": \[/ {
    s/^{"name": "\([^"]*\)".*"type": "/\1 /
    s/", "original_shape": \(\[[0-9, ]*\]\).*/ \1/p
  }' | sort
}
for file in onnx/types.onnx gguf/blocks.gguf gguf/other_blocks.gguf; do
  rm -f "$work/typed.zt"
  expect 0 "$ringload" convert "$data/$file" "$work/typed.zt"
  typed "$data/$file" >"$work/expected"
  [ -s "$work/expected" ] || fail "$file has no such types"
  typed "$work/typed.zt" >"$work/found"
  cmp "$work/expected" "$work/found" || fail "types of $file"
done
expect 0 "$ringload" convert "$data/gguf/blocks.gguf" "$work/blocks.zt"
"$ringload" sum "$data/gguf/blocks.gguf" --dtype f32 >"$work/expected" || fail "sum --dtype f32"
sums "$work/blocks.zt" --dtype f32 >"$work/found"
cmp "$work/expected" "$work/found" || fail "dequantised from .zt"
expect 0 "$ringload" convert "$data/gguf/blocks.gguf" "$work/digests.zt" --digest crc32c
expect 0 "$ringload" convert "$work/digests.zt" "$work/digests.safetensors" --dtype f32
sort "$work/expected" >"$work/sorted"
sums "$work/digests.safetensors" | sort >"$work/found"
cmp "$work/sorted" "$work/found" || fail "dequantised while the digests are verified"
expect 0 "$ringload" convert "$data/gguf/blocks.gguf" "$work/blocks_zstd.zt" --zstd 3 \
  --digest crc32c
"$ringload" ls "$work/blocks_zstd.zt" --json >"$work/out"
grep -q '"encoding": "zstd"' "$work/out" || fail "nothing is compressed"
sums "$work/blocks_zstd.zt" --dtype f32 | sort >"$work/found"
cmp "$work/sorted" "$work/found" || fail "dequantised from zstd"
expect 0 "$ringload" convert "$work/blocks_zstd.zt" "$work/blocks_zstd.safetensors" --dtype f32
sums "$work/blocks_zstd.safetensors" | sort >"$work/found"
cmp "$work/sorted" "$work/found" || fail "dequantised from zstd while the digests are verified"
for file in "$data/gguf/blocks.gguf" "$work/blocks_zstd.zt" "$work/digests.zt"; do
  sums "$file" --slice "q4_0[0:1]" >"$work/rows"
  sums "$file" --slice "q4_0[0:1]" --dtype f32 >>"$work/rows"
  [ ! -e "$work/first_rows" ] || cmp "$work/first_rows" "$work/rows" || fail "rows of $file"
  mv "$work/rows" "$work/first_rows"
done
expect 1 "$ringload" load "$data/onnx/types.onnx" --dtype f32 --no-progress
complains "tensor '.*': it holds .*, which cannot be converted to F32"

# What safetensors has no field for is in its metadata.
expect 0 "$ringload" convert "$data/torch/sparse.pt" "$work/sparse.safetensors"
"$ringload" ls "$work/sparse.safetensors" >"$work/out"
grep -q '^metadata: ringload: .*"layout": "sparse_csr", "shape": \[2, 3\]' "$work/out" ||
  fail "sparse as safetensors: $(cat "$work/out")"
# A second conversion, which loses nothing more, keeps this.
expect 0 "$ringload" convert "$work/sparse.safetensors" "$work/sparse_again.safetensors"
"$ringload" ls "$work/sparse.safetensors" | grep '^metadata: ' >"$work/expected"
"$ringload" ls "$work/sparse_again.safetensors" | grep '^metadata: ' >"$work/found"
cmp "$work/expected" "$work/found" || fail "metadata after two conversions"

# A sparse layout of another format gets the name of its format, because the sparse layouts of .zt
# require other parts. Sparse tensors of .zt keep their layout, also if they are converted.
layouts() {
  "$ringload" ls "$1" --json >"$work/out" || fail "ls $1"
  "$json" get composites <"$work/out" | grep -o '"layout":"[^"]*"' | cut -d '"' -f 4 | sort
}
expect 0 "$ringload" convert "$data/onnx/nested.onnx" "$work/sparse_onnx.zt"
[ "$(layouts "$work/sparse_onnx.zt")" = onnx_sparse_coo ] || fail "sparse tensors of ONNX"
expect 0 "$ringload" convert "$data/torch/sparse.pt" "$work/sparse_torch.zt"
[ "$(layouts "$work/sparse_torch.zt" | tr '\n' ' ')" = \
  "torch_sparse_coo torch_sparse_csc torch_sparse_csr " ] || fail "sparse tensors of PyTorch"
expect 0 "$ringload" convert "$data/zt/all.zt" "$work/sparse_f32.zt" --dtype f32
[ "$(layouts "$work/sparse_f32.zt" | tr '\n' ' ')" = \
  "quantized_group sparse_coo sparse_csr " ] || fail "sparse tensors of .zt"

# Attributes of GGUF keep their types.
expect 0 "$ringload" convert "$data/gguf/plain.gguf" "$work/typed_metadata.zt"
"$ringload" ls "$work/typed_metadata.zt" --json >"$work/out"
grep -q '"test.scores": \[0.5,-1,1e+10\]' "$work/out" || fail "a list"
grep -q '"test.u32": 7' "$work/out" || fail "a number"

# Damage is not encoded anew, with a digest that is right.
expect 0 "$ringload" convert "$data/zt/all.zt" "$work/damaged.zt" --digest crc32c
offset=$("$ringload" ls "$work/damaged.zt" --json |
  sed -n 's/.*"name": "hashed".*"offset": \([0-9]*\).*/\1/p')
printf '\377' | dd of="$work/damaged.zt" bs=1 seek="$offset" conv=notrunc status=none
for what in 'convert --zstd 3' 'convert --digest sha256' compress \
  'convert --select hashed --dtype bf16' 'convert --slice hashed[0:1] --digest crc32c'; do
  command=${what%% *}
  options=${what#"$command"}
  # shellcheck disable=SC2086
  expect 1 "$ringload" $command "$work/damaged.zt" "$work/again.zt" $options
  complains "damaged.zt: tensor 'hashed': .*crc32c"
  [ ! -e "$work/again.zt" ] || fail "$what of what is damaged"
done
expect 1 "$ringload" convert "$work/damaged.zt" "$work/again.safetensors" --select hashed
complains "tensor 'hashed': .*crc32c"
expect 1 "$ringload" convert "$work/damaged.zt" "$work/again.safetensors" --slice 'hashed[1:2]'
complains "tensor 'hashed': .*crc32c"
expect 0 "$ringload" convert "$work/damaged.zt" "$work/copied.zt"
expect 1 "$ringload" load "$work/copied.zt" --digests if-present --no-progress

expect 0 "$ringload" make "$work/m" --bytes 40M --shards 3 --no-progress
sums "$work/m" >"$work/expected"

# A folder of shards, and back into one file; names sort as in the source.
expect 0 "$ringload" convert "$work/m" "$work/folder" --shard-bytes 10M --checksums "$work/list"
[ "$(ls "$work/folder" | grep -c '^model-0000.-of-0000..safetensors$')" -ge 4 ] ||
  fail "shards: $(ls "$work/folder")"
expect 0 "$ringload" load "$work/folder" --verify "$work/list"
expect 0 "$ringload" convert "$work/folder" "$work/one.safetensors" --align 4K
sums "$work/one.safetensors" >"$work/found"
cmp "$work/expected" "$work/found" || fail "shards and back"
head -c 8 "$work/one.safetensors" | od -A n -t u8 | awk '{exit ($1 + 8) % 4096}' ||
  fail "--align 4K of safetensors"
expect 0 "$ringload" convert "$work/m" "$work/aligned.zt" --align 4K --checksums "$work/list"
expect 0 "$ringload" load "$work/aligned.zt" --verify "$work/list"
"$ringload" ls "$work/aligned.zt" --json | sed -n 's/.*"offset": \([0-9]*\).*/\1/p' |
  awk '$1 % 4096 {bad = 1} END {exit bad || !NR}' || fail "--align 4K of .zt"

# Tensors of one storage are stored once.
expect 0 "$ringload" convert "$data/torch/nested.pt" "$work/tied.zt" --checksums "$work/list"
"$ringload" ls "$work/tied.zt" --json |
  sed -n 's/.*"name": "\([^"]*\)".*"offset": \([0-9]*\).*/\2 \1/p' >"$work/found"
[ "$(grep -c ' pair.0$\| state_dict.w$' "$work/found")" = 2 ] || fail "names: $(cat "$work/found")"
[ "$(sed -n 's/ pair.0$//p' "$work/found")" = "$(sed -n 's/ state_dict.w$//p' "$work/found")" ] ||
  fail "stored twice: $(cat "$work/found")"
expect 0 "$ringload" load "$work/tied.zt" --verify "$work/list"
[ "$(wc -l <"$work/list")" = 6 ] || fail "checksum list: $(cat "$work/list")"

# The checksum list is larger than the result, and cannot be written.
awk 'BEGIN {
  for (i = 0; i < 1000; ++i)
    printf "%s\"%d\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[0,0]}", i ? "," : "{", i
  printf "}"
}' >"$work/header"
size=$(wc -c <"$work/header")
{ printf "\\$(printf %03o $((size % 256)))\\$(printf %03o $((size / 256)))\\0\\0\\0\\0\\0\\0"
  cat "$work/header"; } >"$work/empty.safetensors"
(ulimit -f 120; expect 1 "$ringload" convert "$work/empty.safetensors" \
  "$work/whole.safetensors" --checksums "$work/no_list") || exit 1
complains "no_list: .*; the result '.*whole.safetensors' is complete, only the checksum list"
[ ! -e "$work/no_list" ] || fail "an incomplete checksum list"
sums "$work/empty.safetensors" >"$work/expected"
sums "$work/whole.safetensors" >"$work/found"
cmp "$work/expected" "$work/found" || fail "the result without its list"

# Parts, and other types.
expect 0 "$ringload" convert "$work/m" "$work/part.zt" --select '*1*' --except '*2*'
"$ringload" sum "$work/m" --select '*1*' --except '*2*' >"$work/expected"
sums "$work/part.zt" >"$work/found"
cmp "$work/expected" "$work/found" || fail "--select"
expect 0 "$ringload" convert "$work/m" "$work/bf16.safetensors" --dtype bf16
"$ringload" sum "$work/m" --dtype bf16 >"$work/expected"
sums "$work/bf16.safetensors" >"$work/found"
cmp "$work/expected" "$work/found" || fail "--dtype"

# What is there stays.
echo before >"$work/there.zt"
expect 1 "$ringload" convert "$work/m" "$work/there.zt"
complains 'there.zt: the path exists already$'
expect 1 "$ringload" convert "$work/m" "$work/folder"
complains 'folder: the path exists already$'
[ "$(cat "$work/there.zt")" = before ] || fail "there.zt was touched"
# Paths that cannot be.
expect 1 "$ringload" convert "$work/m" "$work/$(printf '%0300d' 0).zt"
complains '0.zt: File name too long$'
expect 1 "$ringload" make "$work/$(printf '%0300d' 0)" --bytes 1M
complains '0: File name too long$'
expect 1 "$ringload" convert "$work/m" "$work/absent/x.zt"
complains "absent/x.zt: the folder '.*/absent' does not exist"
expect 1 "$ringload" convert "$work/m" ""
complains '^ringload: error: the path does not end with a file name$'
# A full disk, or a limit of a file's size: the shard's name is the one that it would have.
(ulimit -f 4000; expect 1 "$ringload" convert "$work/m" "$work/shards" --shard-bytes 3M) || exit 1
complains 'shards/model-0000[1-9]-of-[0-9]*.safetensors: .*File too large'
expect 2 "$ringload" convert "$work/m"
expect 2 "$ringload" convert "$work/m" "$work/x.safetensors" --zstd 3
expect 2 "$ringload" convert "$work/m" "$work/x.zt" --shard-bytes 1M
expect 2 "$ringload" convert "$work/m" "$work/x.zt" --zstd 23
expect 2 "$ringload" convert "$work/m" "$work/x.zt" --align 48
[ -z "$(ls -A "$work" | grep '^\.ringload')" ] || fail "left over: $(ls -A "$work")"

# ---- The verbs of .zt ----

"$ringload" convert "$data/zt/all.zt" "$work/a.zt" || fail "all.zt"
sums "$data/zt/all.zt" >"$work/all"
sums "$work/a.zt" >"$work/found"
cmp "$work/all" "$work/found" || fail "a copy of all.zt"

expect 0 "$ringload" compress "$work/a.zt" "$work/packed.zt" --level 5
expect 0 "$ringload" decompress "$work/packed.zt" "$work/plain.zt"
expect 0 "$ringload" migrate "$work/plain.zt" "$work/b.zt"
for file in packed plain b; do
  sums "$work/$file.zt" >"$work/found"
  cmp "$work/all" "$work/found" || fail "$file"
done
"$ringload" ls "$work/plain.zt" --json | grep -q '"encoding"' && fail "decompress leaves zstd"

expect 0 "$ringload" remove "$work/a.zt" group bool -o "$work/less.zt"
grep -v '  group/\|  bool$' "$work/all" >"$work/expected"
sums "$work/less.zt" >"$work/found"
cmp "$work/expected" "$work/found" || fail "remove"
expect 1 "$ringload" remove "$work/a.zt" nobody -o "$work/none.zt"
complains "a.zt: tensor 'nobody'"
[ ! -e "$work/none.zt" ] || fail "remove of nobody"

sed 's/.*  //; s!/.*!!' "$work/all" | sort -u | grep -v '^group$\|^bool$' >"$work/names"
expect 0 "$ringload" remove "$work/a.zt" $(cat "$work/names") -o "$work/rest.zt"
expect 0 "$ringload" merge "$work/less.zt" "$work/rest.zt" -o "$work/merged.zt"
sums "$work/merged.zt" >"$work/found"
cmp "$work/all" "$work/found" || fail "merge"
expect 1 "$ringload" merge "$work/a.zt" "$work/rest.zt" -o "$work/twice.zt"
complains "rest.zt: tensor '.*': '.*/a.zt' also has a tensor of this name"
[ ! -e "$work/twice.zt" ] || fail "merge of what is there twice"

cp "$work/less.zt" "$work/target.zt"
expect 0 "$ringload" append "$work/target.zt" --from "$work/rest.zt"
sums "$work/target.zt" >"$work/found"
cmp "$work/all" "$work/found" || fail "append"
cp "$work/target.zt" "$work/before.zt"
expect 1 "$ringload" append "$work/target.zt" --from "$work/rest.zt"
cmp "$work/target.zt" "$work/before.zt" || fail "append of what is there"

expect 0 "$ringload" make "$work/x.safetensors" --bytes 1M --shape llama
expect 0 "$ringload" make "$work/y.safetensors" --bytes 1M --shape llama --seed 1
expect 0 "$ringload" convert "$work/x.safetensors" "$work/x.zt" --digest sha256
name=$("$ringload" sum "$work/x.zt" | sed -n '1s/.*  //p')
expect 0 "$ringload" replace "$work/x.zt" "$name" --from "$work/y.safetensors"
{ "$ringload" sum "$work/y.safetensors" | sed -n 1p
  "$ringload" sum "$work/x.safetensors" | sed 1d; } >"$work/expected"
sums "$work/x.zt" >"$work/found"
cmp "$work/expected" "$work/found" || fail "replace"
expect 1 "$ringload" replace "$work/x.zt" nobody --from "$work/y.safetensors"

# A type that is a dtype in safetensors, and a logical type in .zt, is the same type.
# one_tensor FILE DTYPE BYTE
one_tensor() {
  header="{\"x\":{\"dtype\":\"$2\",\"shape\":[4],\"data_offsets\":[0,4]}}"
  printf "\\$(printf %03o ${#header})\\0\\0\\0\\0\\0\\0\\0%s%s" "$header" "$3$3$3$3" >"$1"
}
for type in F8_E4M3 F8_E5M2 F8_E8M0 F8_E4M3FNUZ F8_E5M2FNUZ; do
  one_tensor "$work/old_f8.safetensors" $type a
  one_tensor "$work/new_f8.safetensors" $type b
  rm -f "$work/f8.zt"
  expect 0 "$ringload" convert "$work/old_f8.safetensors" "$work/f8.zt"
  expect 0 "$ringload" replace "$work/f8.zt" x --from "$work/new_f8.safetensors"
  sums "$work/new_f8.safetensors" >"$work/expected"
  sums "$work/f8.zt" >"$work/found"
  cmp "$work/expected" "$work/found" || fail "replace of $type"
done
one_tensor "$work/new_f8.safetensors" F8_E4M3 b
cp "$work/f8.zt" "$work/before.zt"
expect 1 "$ringload" replace "$work/f8.zt" x --from "$work/new_f8.safetensors"
complains "tensor 'x'"
cmp "$work/f8.zt" "$work/before.zt" || fail "elements of another F8 were stored"

# The suffix of a result is the format of the file.
for words in "compress $work/a.zt $work/odd.safetensors" "decompress $work/a.zt $work/odd" \
  "migrate $work/a.zt $work/odd.gguf" "merge $work/a.zt -o $work/odd.npz" \
  "remove $work/a.zt bool -o $work/odd.safetensors" \
  "delta $work/x.safetensors $work/y.safetensors -o $work/odd.safetensors"; do
  # shellcheck disable=SC2086
  expect 2 "$ringload" $words
  complains "expected a name that ends in .zt"
done
[ -z "$(ls "$work"/odd* 2>/dev/null)" ] || fail "a refused result is written"

# Damaged elements are refused, not stored with a new digest.
expect 0 "$ringload" convert "$work/y.safetensors" "$work/damaged_elements.zt" --digest sha256
offset=$("$ringload" ls "$work/damaged_elements.zt" --json |
  sed -n "s/^{\"name\": \"$name\".*\"offset\": \([0-9]*\).*/\1/p")
byte=$(od -A n -t u1 -j "$offset" -N 1 "$work/damaged_elements.zt")
printf "\\$(printf %o $((byte ^ 1)))" |
  dd of="$work/damaged_elements.zt" bs=1 seek="$offset" conv=notrunc 2>/dev/null
cp "$work/x.zt" "$work/before.zt"
expect 1 "$ringload" replace "$work/x.zt" "$name" --from "$work/damaged_elements.zt"
complains "$name.*digest"
cmp "$work/x.zt" "$work/before.zt" || fail "damaged elements were stored"

# The file keeps the logical type, so elements of another one are refused: here u4 becomes i4, the
# next type of ONNX, whose elements have the same number of bytes.
LC_ALL=C sed 's/\x10\x15/\x10\x16/g' "$data/onnx/types.onnx" >"$work/other_types.onnx"
expect 0 "$ringload" convert "$data/onnx/types.onnx" "$work/types.zt"
expect 0 "$ringload" convert "$work/other_types.onnx" "$work/other_types.zt"
cp "$work/types.zt" "$work/before.zt"
expect 1 "$ringload" replace "$work/types.zt" uint4.raw --from "$work/other_types.zt"
complains "uint4.raw.*'i4' instead of 'u4'"
cmp "$work/types.zt" "$work/before.zt" || fail "elements of another type were stored"
expect 0 "$ringload" replace "$work/types.zt" uint4.raw --from "$data/onnx/types.onnx"
[ -z "$(ls -A "$work" | grep '^\.ringload')" ] || fail "left over: $(ls -A "$work")"
