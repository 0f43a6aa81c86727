# SPDX-License-Identifier: Apache-2.0
#
# versions.sh RINGLOAD JSON_TOOL DATA: a folder of versions is loaded whole, and an error names the
# link.

. "$(dirname "$0")/support.sh"
data=$3

mkdir "$work/run"
for seed in 0 1 2; do
  "$ringload" make "$work/$seed.safetensors" --bytes 300000 --seed "$seed" >/dev/null || fail "make"
done
mv "$work/0.safetensors" "$work/run/v0.safetensors"
expect 0 "$ringload" delta "$work/run/v0.safetensors" "$work/1.safetensors" \
  -o "$work/run/v1.delta.zt"
expect 0 "$ringload" delta "$work/1.safetensors" "$work/2.safetensors" -o "$work/run/v2.delta.zt"

expect 0 "$ringload" load "$work/run"
silent
expect 0 "$ringload" apply "$work/run/v0.safetensors" "$work/run/v1.delta.zt" \
  "$work/run/v2.delta.zt" -o "$work/applied.safetensors"
"$ringload" sum "$work/applied.safetensors" >"$work/applied" || fail "sum"
"$ringload" sum "$work/2.safetensors" >"$work/wanted" || fail "sum"
cmp "$work/applied" "$work/wanted" || fail "the chain leads to another version"

# The layout of slime, SGLang and ModelExpress.
mkdir "$work/indexed"
base=$work/run/v0.safetensors next=$work/next.safetensors
cp "$base" "$next"
echo changed | dd of="$next" bs=1 seek=$(($(wc -c <"$next") - 100)) conv=notrunc 2>/dev/null
for encoding in xor overwrite; do
  folder=$work/indexed/weight_v000001
  expect 0 "$ringload" delta "$base" "$next" -o "$folder" \
    --indexed $encoding --checksum adler32
  [ -e "$folder/model.safetensors.index.json" ] || fail "no index"
  expect 0 "$ringload" apply "$base" "$folder" -o "$work/$encoding.safetensors"
  "$ringload" sum "$work/$encoding.safetensors" >"$work/applied" || fail "sum"
  "$ringload" sum "$next" >"$work/wanted" || fail "sum"
  cmp "$work/applied" "$work/wanted" || fail "$encoding leads to another version"
  rm -r "$folder"
done
mkdir "$work/indexed/weight_v000000"
cp "$base" "$work/indexed/weight_v000000/model.safetensors"
expect 0 "$ringload" delta "$base" "$next" -o "$work/indexed/weight_v000001" --indexed xor
expect 0 "$ringload" load "$work/indexed"
silent
expect 1 "$ringload" load "$work/indexed" --select '*'
complains 'folder of versions'
expect 2 "$ringload" delta "$base" "$next" -o "$work/d" \
  --checksum adler32
complains '--indexed'
expect 1 "$ringload" delta "$base" "$next" -o "$work/d" \
  --indexed xor
complains 'weight_v000007'

for options in "--select *" --independent-files "--profile reference" "--route direct" \
  "--allocation tensor" "--trace $work/trace"; do
  set -f
  # shellcheck disable=SC2086
  expect 1 "$ringload" load "$work/run" $options
  set +f
  complains 'folder of versions'
done
[ ! -e "$work/trace" ] || fail "a trace of a refused load"
mv "$work/run/v1.delta.zt" "$work/v1"
expect 1 "$ringload" load "$work/run"
complains 'v1.delta.zt'
mv "$work/run/v2.delta.zt" "$work/run/v1.delta.zt"
expect 1 "$ringload" load "$work/run"
complains 'v1.delta.zt'

# Shards that differ in a key of their metadata: the first value counts, as in a conversion.
mkdir "$work/differ"
for shard in 1:pt 2:tf; do
  header='{"__metadata__":{"format":"'${shard#*:}'","by":"me"},"t'${shard%:*}'":{"dtype":"U8",'
  header=$header'"shape":[1],"data_offsets":[0,1]}}'
  {
    printf "\\$(printf %03o ${#header})\\0\\0\\0\\0\\0\\0\\0"
    printf %sx "$header"
  } >"$work/differ/model-0000${shard%:*}-of-00002.safetensors"
done
expect 0 "$ringload" delta "$work/differ" "$work/differ" -o "$work/same.delta.zt"
expect 0 "$ringload" apply "$work/differ" "$work/same.delta.zt" \
  -o "$work/applied_shards.safetensors"
expect 0 "$ringload" convert "$work/differ" "$work/converted_shards.safetensors"
for name in applied converted; do
  expect 0 "$ringload" ls "$work/${name}_shards.safetensors" --json
  "$json" get metadata.format <"$work/out" >"$work/values" || fail "metadata of $name shards"
  [ "$(cat "$work/values")" = pt ] || fail "$name: $(cat "$work/values")"
done

# A delta with the encoding 'overwrite' can be applied to any version. Only the names of the
# versions show that the order is wrong.
header='{"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]},'
header=$header'"b":{"dtype":"U8","shape":[4],"data_offsets":[4,8]}}  '
# two_tensors FILE TEXT
two_tensors() {
  { printf "\\$(printf %03o ${#header})\\0\\0\\0\\0\\0\\0\\0"; printf %s "$header$2"; } >"$1"
}
two_tensors "$work/two0.safetensors" aaaabbbb
two_tensors "$work/two1.safetensors" AAAAbbbb
two_tensors "$work/two2.safetensors" AAAABBBB
two_tensors "$work/two3.safetensors" XXXXBBBB
mkdir "$work/two"
for version in 1 2 3; do
  expect 0 "$ringload" delta "$work/two$((version - 1)).safetensors" \
    "$work/two$version.safetensors" -o "$work/two/weight_v00000$version" --indexed overwrite
done
weight=$work/two/weight_v00000
expect 0 "$ringload" apply "$work/two0.safetensors" "${weight}1" "${weight}2" "${weight}3" \
  -o "$work/two.safetensors"
"$ringload" sum "$work/two.safetensors" >"$work/applied" || fail "sum"
"$ringload" sum "$work/two3.safetensors" >"$work/wanted" || fail "sum"
cmp "$work/applied" "$work/wanted" || fail "a chain of deltas with an index"
for order in "2 1" "1 3" "1 1"; do
  # shellcheck disable=SC2086
  set -- $order
  expect 1 "$ringload" apply "$work/two0.safetensors" "$weight$1" "$weight$2" -o "$work/wrong.zt"
  complains "weight_v00000$2.*base_version of the delta is '00000$(($2 - 1))', expected '00000$1'"
  [ ! -e "$work/wrong.zt" ] || fail "the order $order was applied"
done

# An error names the folder of the result, not its temporary folder.
cp "$base" "$work/noise.safetensors"
dd if="$work/2.safetensors" of="$work/noise.safetensors" bs=1000 skip=20 seek=20 count=200 \
  conv=notrunc 2>/dev/null
(ulimit -f 100; expect 1 "$ringload" delta "$base" "$work/noise.safetensors" \
  -o "$work/weight_v000009" --indexed xor) || exit 1
complains 'weight_v000009/model-00001.safetensors: .*File too large'

# apply keeps all that convert keeps.
# properties FILE: types, shapes, composites and metadata.
properties() {
  "$ringload" ls "$1" --json >"$work/ls" || fail "ls $1"
  sed -n '/^"metadata"/p; /"type"\|"layout"/ {
    s/"file": "[^"]*"\(, "offset": [0-9]*\)\{0,1\}//; s/"encoding": "[^"]*", //
    s/"gguf_type"/"logical_type"/; s/"stored_bytes": [0-9]*//; s/[, ]*$//; s/[, ]*}$/}/; p
  }' "$work/ls" | sort
}
cp "$data/gguf/blocks.gguf" "$work/next.gguf"
offset=$("$ringload" ls "$work/next.gguf" --json |
  sed -n 's/^{"name": "q4_0",.*"offset": \([0-9]*\).*/\1/p')
printf '\377' | dd of="$work/next.gguf" bs=1 seek=$((offset + 5)) conv=notrunc 2>/dev/null
cp "$data/gguf/plain.gguf" "$data/zt/all.zt" "$data/torch/sparse.pt" "$work/"
for pair in "$data/gguf/blocks.gguf $work/next.gguf" "$work/plain.gguf $work/plain.gguf" \
  "$work/all.zt $work/all.zt" "$work/sparse.pt $work/sparse.pt"; do
  # shellcheck disable=SC2086
  set -- $pair
  rm -f "$work"/kept.*
  expect 0 "$ringload" delta "$1" "$2" -o "$work/kept.delta.zt"
  expect 0 "$ringload" apply "$1" "$work/kept.delta.zt" -o "$work/kept.zt"
  expect 0 "$ringload" convert "$2" "$work/kept.expected.zt"
  for file in kept kept.expected; do
    properties "$work/$file.zt" >"$work/properties_of_$file"
    "$ringload" sum "$work/$file.zt" | sort >"$work/sums_of_$file" || fail "sum of $file"
  done
  [ -s "$work/properties_of_kept" ] || fail "no properties of $2"
  cmp "$work/properties_of_kept" "$work/properties_of_kept.expected" || fail "properties of $2"
  cmp "$work/sums_of_kept" "$work/sums_of_kept.expected" || fail "tensors of $2"
  code=0
  "$ringload" apply "$1" "$work/kept.delta.zt" -o "$work/kept.safetensors" >"$work/out" \
    2>"$work/err" || code=$?
  case $2 in
    *next.gguf)
      [ $code = 1 ] || fail "quantised blocks became bytes"
      complains "tensor '.*': its elements are quantised blocks of .*safetensors cannot store"
      [ ! -e "$work/kept.safetensors" ] || fail "a refused result is written"
      ;;
    *)
      [ $code = 0 ] || fail "$2: $(cat "$work/err")"
      expect 0 "$ringload" convert "$2" "$work/kept.expected.safetensors"
      for file in kept kept.expected; do
        "$ringload" ls "$work/$file.safetensors" | grep '^metadata: ' | sort >"$work/texts_of_$file"
      done
      cmp "$work/texts_of_kept" "$work/texts_of_kept.expected" || fail "metadata of $2"
      ;;
  esac
done
expect 0 "$ringload" delta "$work/plain.gguf" "$work/plain.gguf" -o "$work/plain.delta.zt"
expect 0 "$ringload" apply "$work/plain.gguf" "$work/plain.delta.zt" -o "$work/plain_applied.zt"
"$ringload" ls "$work/plain_applied.zt" --json | grep -q '"test.u32": 7' || fail "a number"
