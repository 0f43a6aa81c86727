# SPDX-License-Identifier: Apache-2.0
#
# versions.sh RINGLOAD JSON_TOOL: a folder of versions is loaded whole, and an error names the link.

. "$(dirname "$0")/support.sh"

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
