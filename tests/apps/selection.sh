# SPDX-License-Identifier: Apache-2.0
#
# selection.sh RINGLOAD JSON_TOOL: what is chosen of a checkpoint, and only that, lands; checkpoints
# of several files; files of other formats. Expected digests are made without code of ours.

. "$(dirname "$0")/support.sh"

# digest FILE OFFSET BYTES
digest() {
  tail -c +$(($2 + 1)) "$1" | head -c "$3" | sha256sum | cut -d ' ' -f 1
}

# sum_is DIGEST NAME ARGUMENT...: that sum prints this for the tensor.
sum_is() {
  wanted_sum=$1
  name=$2
  shift 2
  expect 0 "$ringload" sum "$@"
  silent
  grep -q -F -x "$wanted_sum  $name" "$work/out" || fail "sum of $name: $*: $(cat "$work/out")"
}

# A file of the given tensors, all U8: safetensors_of FILE HEADER BYTES
safetensors_of() {
  {
    printf "\\$(printf %03o $((${#2} % 256)))\\$(printf %03o $((${#2} / 256)))\\0\\0\\0\\0\\0\\0"
    printf %s%s "$2" "$3"
  } >"$1"
}

"$ringload" make "$work/m" --bytes 12M --shape llama --shards 3 >/dev/null || fail "make"
expect 1 "$ringload" load "$work/m" --experts --rank 0/2
complains 'the checkpoint has no routed experts'
q=model.layers.0.self_attn.q_proj.weight
"$ringload" ls "$work/m" --json --select "$q" >"$work/catalog" || fail "ls --select"
set -- $(sed -n '/^{"name"/ {
  s/.*"shape": \[//; s/\], "bytes": / /; s/, "file": "/ /; s/", "offset": / /; s/, / /; s/}.*//p
}' "$work/catalog")
[ $# -eq 5 ] || fail "ls --select is not one tensor: $(cat "$work/catalog")"
rows=$1 columns=$2 bytes=$3 file=$4 offset=$5
row=$((columns * 2))
[ "$bytes" -eq $((rows * row)) ] || fail "not BF16"

# Ranges of the first dimension are pieces of the file.
sum_is "$(digest "$file" "$offset" "$bytes")" $q "$work/m" --select $q
[ "$(wc -l <"$work/out")" -eq 1 ] || fail "--select $q chooses more"
for range in "0:1 0 1" "3:10 3 7" "3: 3 $((rows - 3))" ":5 0 5" "7 7 1" "-1 $((rows - 1)) 1" \
  "-4:-1 $((rows - 4)) 3" "2:2 2 0"; do
  set -- $range
  sum_is "$(digest "$file" $((offset + $2 * row)) $(($3 * row)))" $q \
    "$work/m" --select $q --slice "$q[$1]"
done
"$ringload" sum "$work/m" | sed 's/.*  //' >"$work/names"
"$ringload" sum "$work/m" --slice "$q[0:1]" | sed 's/.*  //' | cmp "$work/names" - ||
  fail "--slice alone leaves tensors out"

# So are blocks of it, of which the last is what is left.
block=$(((rows + 2) / 3))
for rank in 0 1 2; do
  begin=$((rank * block))
  count=$((rank < 2 ? block : rows - begin))
  sum_is "$(digest "$file" $((offset + begin * row)) $((count * row)))" $q \
    "$work/m" --select $q --shard '*.q_proj.weight:0' --rank $rank/3
done

# Along the second dimension.
if command -v python3 >/dev/null; then
  for range in "0:3 0 3" "5:6 5 6" "-2: $((columns - 2)) $columns"; do
    set -- $range
    wanted_sum=$(python3 -c '
import hashlib, sys
path, offset, rows, columns, begin, end = sys.argv[1], *map(int, sys.argv[2:])
whole = open(path, "rb").read()[offset:]
part = [whole[(r * columns + begin) * 2:(r * columns + end) * 2] for r in range(2, rows)]
print(hashlib.sha256(b"".join(part)).hexdigest())' "$file" "$offset" "$rows" "$columns" "$2" "$3")
    sum_is "$wanted_sum" $q "$work/m" --select $q --slice "$q[2:, $1]"
  done
  # A quarter of the columns by shard, and rows by slice.
  quarter=$(((columns + 3) / 4))
  expect 0 "$ringload" sum "$work/m" --select $q --slice "$q[2:, $quarter:$((2 * quarter))]"
  cp "$work/out" "$work/sliced"
  expect 0 "$ringload" sum "$work/m" --select $q --slice "$q[2:]" --shard "$q:1" --rank 1/4
  cmp "$work/sliced" "$work/out" || fail "a shard differs from its slice"
else
  echo "not checked against Python: ranges of the second dimension, for there is no python3"
fi

# What is not wanted is not read, but for the rest of two blocks.
expect 0 "$ringload" load "$work/m" --select $q --slice "$q[3:10]" --json
"$json" get tensors bytes bytes_wanted bytes_read <"$work/out" >"$work/values" || fail "load --json"
[ "$(sed -n 1,3p "$work/values" | tr '\n' ' ')" = "1 $((7 * row)) $((7 * row)) " ] ||
  fail "load of a slice: $(cat "$work/values")"
[ "$(sed -n 4p "$work/values")" -le $((7 * row + 8192)) ] ||
  fail "reads more: $(cat "$work/values")"

# ls lists what load would load.
expect 0 "$ringload" ls "$work/m" --select '*.0.*_proj.weight' --except '*.mlp.*' --json \
  --shard '*.q_proj.weight:0' --rank 2/3
"$json" get tensors <"$work/out" | grep -o '"name":"[^"]*"' >"$work/names"
[ "$(wc -l <"$work/names")" -eq 4 ] || fail "names: $(cat "$work/names")"
left=$((rows - 2 * block))
grep -q "\"name\": \"$q\".*\"shape\": \[$left, $columns\], \"bytes\": $((left * row))," \
  "$work/out" || fail "ls of a shard: $(cat "$work/out")"

# The routed experts of a rank, and what is no expert.
header='{"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}'
for n in 0 1 2; do
  header=$header',"m.experts.'$n'.w":{"dtype":"U8","shape":[1],"data_offsets":'
  header=$header"[$((n + 1)),$((n + 2))]}"
done
safetensors_of "$work/experts.safetensors" "$header}" abcd
for rank in "0/2 a m.experts.0.w m.experts.1.w" "1/2 a m.experts.2.w"; do
  set -- $rank
  expect 0 "$ringload" sum "$work/experts.safetensors" --experts --rank "$1"
  shift
  [ "$(sed 's/.*  //' "$work/out" | tr '\n' ' ')" = "$* " ] || fail "experts: $(cat "$work/out")"
done

# A name with brackets.
safetensors_of "$work/names.safetensors" \
  '{"a[0]":{"dtype":"U8","shape":[4],"data_offsets":[0,4]}}' wxyz
sum_is "$(printf xy | sha256sum | cut -d ' ' -f 1)" 'a[0]' "$work/names.safetensors" \
  --slice 'a[0][1:3]'

# Several files, and a folder of files that have nothing to do with each other, are one checkpoint.
mkdir "$work/each"
cp "$work/experts.safetensors" "$work/names.safetensors" "$work/each"
for one in experts names; do
  "$ringload" sum "$work/$one.safetensors"
done | LC_ALL=C sort -k 2 >"$work/wanted"
expect 0 "$ringload" sum "$work/experts.safetensors" "$work/names.safetensors"
cmp "$work/wanted" "$work/out" || fail "sum of two files"
expect 0 "$ringload" sum "$work/each" --independent-files
cmp "$work/wanted" "$work/out" || fail "sum of independent files"
expect 0 "$ringload" load "$work/each" --independent-files --json
[ "$("$json" get files <"$work/out")" = 2 ] || fail "load of independent files"
expect 0 "$ringload" load "$work/experts.safetensors" "$work/names.safetensors" --json
[ "$("$json" get source <"$work/out")" = \
  "[\"$work/experts.safetensors\",\"$work/names.safetensors\"]" ] || fail "source of two files"
expect 0 "$ringload" sum "$work/experts.safetensors" "$work/names.safetensors" \
  --checksums "$work/two.sums"
expect 0 "$ringload" verify "$work/each" --independent-files --checksums "$work/two.sums"
[ "$(wc -l <"$work/out")" -eq 5 ] || fail "verify of two files: $(cat "$work/out")"
expect 0 "$ringload" verify "$work/each" --independent-files --checksums "$work/two.sums" \
  --select 'm.*' --except '*.0.w'
[ "$(wc -l <"$work/out")" -eq 2 ] || fail "verify --select: $(cat "$work/out")"
expect 0 "$ringload" load "$work/each" --independent-files --verify "$work/two.sums" --select 'm.*'

# The address of a model in the cache.
commit=0123456789abcdef0123456789abcdef01234567
model=$work/hub/models--owner--model
mkdir -p "$model/refs" "$model/snapshots/$commit"
printf %s $commit >"$model/refs/main"
cp "$work/names.safetensors" "$model/snapshots/$commit/model.safetensors"
expect 0 env HF_HUB_CACHE="$work/hub" "$ringload" sum https://huggingface.co/owner/model
[ "$(sed 's/.*  //' "$work/out")" = 'a[0]' ] || fail "an address: $(cat "$work/out")"

# NumPy: little-endian and row-major, whatever the file's order. [[1, 2, 3], [4, 5, 6]] three times.
# npy FILE DESCR FORTRAN BYTES
npy() {
  text="{'descr': '$2', 'fortran_order': $3, 'shape': (2, 3), }"
  while [ $(((${#text} + 11) % 64)) -ne 0 ]; do text="$text "; done
  printf "\223NUMPY\1\0\\$(printf %03o $((${#text} + 1)))\0%s\n$4" "$text" >"$1"
}
npy "$work/little.npy" '<u2' False '\1\0\2\0\3\0\4\0\5\0\6\0'
npy "$work/big.npy" '>u2' False '\0\1\0\2\0\3\0\4\0\5\0\6'
npy "$work/fortran.npy" '<u2' True '\1\0\4\0\2\0\5\0\3\0\6\0'
all=$(printf '\1\0\2\0\3\0\4\0\5\0\6\0' | sha256sum | cut -d ' ' -f 1)
part=$(printf '\5\0\6\0' | sha256sum | cut -d ' ' -f 1)
for kind in little:null big:big_endian fortran:strided; do
  name=${kind%:*}
  sum_is "$all" $name "$work/$name.npy"
  sum_is "$part" $name "$work/$name.npy" --slice "$name[1, 1:]"
  expect 0 "$ringload" ls "$work/$name.npy" --json
  [ "$("$json" get format <"$work/out")" = '["npy"]' ] || fail "format of $name.npy"
  case $name in
    little) ! grep -q -e '"encoding"' -e '"stored_bytes"' -e '"type"' "$work/out" ;;
    *) grep -q "\"offset\": 128, \"encoding\": \"${kind#*:}\"" "$work/out" ;;
  esac || fail "encoding of $name.npy: $(cat "$work/out")"
done

# What does not fit the checkpoint is one line that names the option's text.
# refused TEXT ARGUMENT...
refused() {
  text=$1
  shift
  for command in ls load sum; do
    expect 1 "$ringload" $command "$@"
    complains '^ringload: error: '
    grep -q -F -e "$text" "$work/err" || fail "'$text' is not in: $(cat "$work/err")"
    [ ! -s "$work/out" ] || fail "$command prints something all the same"
  done
}
refused 'none*' "$work/m" --select 'none*'
refused "slice 'none[0]': the checkpoint has no tensor 'none'" "$work/m" --slice 'none[0]'
refused "slice '$q[:$((rows + 1))]': the range is not within dimension 0, whose size is" "$work/m" \
  --slice "$q[:$((rows + 1))]"
refused "slice '$q[0,0,0]': 3 ranges, but the tensor has 2" "$work/m" --slice "$q[0,0,0]"
refused "slice '$q[2:1]': the range of dimension 0 ends before it begins" "$work/m" \
  --slice "$q[2:1]"
refused 'two ranges' "$work/m" --slice "$q[0:1]" --slice "$q[0:2]"
refused 'none*' "$work/m" --shard 'none*:0' --rank 0/2
refused 'there is no dimension 2' "$work/m" --shard "$q:2" --rank 0/2
refused "tensor 'a[0]'" "$work/names.safetensors" "$work/each/names.safetensors"
refused 'missing.safetensors' "$work/names.safetensors" "$work/missing.safetensors"
refused 'each' "$work/names.safetensors" "$work/each"
refused 'names.safetensors' "$work/names.safetensors" --independent-files

# Through a window all of it comes, and never more at once than fits.
count=$("$ringload" sum "$work/m" | wc -l)
expect 0 "$ringload" load "$work/m" --json --window 40M
grep -q '"tensors": '"$count," "$work/out" || fail "--window: $(cat "$work/out")"
peak=$(sed -n 's/.*"tensor_bytes_peak": \([0-9]*\).*/\1/p' "$work/out")
[ "$peak" -gt 0 ] && [ "$peak" -le $((40 * 1024 * 1024)) ] || fail "--window: peak $peak"
for window in 1G 40M; do
  expect 0 "$ringload" sum "$work/m" --window $window
  "$ringload" sum "$work/m" | cmp - "$work/out" || fail "sum --window $window"
done
expect 1 "$ringload" sum "$work/m" --window 64K
grep -q "the window has" "$work/err" || fail "sum --window 64K: $(cat "$work/err")"
expect 1 "$ringload" load "$work/m" --window 64K
grep -q "the window has" "$work/err" || fail "--window 64K: $(cat "$work/err")"

# Mapped, nothing is read; what cannot be is refused, or loaded.
"$ringload" sum "$work/m" >"$work/wanted"
for how in "" "--populate" "--allocation tensor" "--allocation file --algorithm sha256"; do
  expect 0 "$ringload" sum "$work/m" --mapped $how
  cmp "$work/wanted" "$work/out" || fail "sum --mapped $how"
done
expect 0 "$ringload" load "$work/m" --mapped --json
grep -q '"bytes_read": 0,' "$work/out" || fail "--mapped: $(cat "$work/out")"
grep -q '"tensor_bytes_peak": 0,' "$work/out" || fail "--mapped: $(cat "$work/out")"
expect 1 "$ringload" sum "$work/m" --mapped --dtype f32
complains "cannot be mapped\|the tensor is converted"
"$ringload" sum "$work/m" --dtype f32 >"$work/wanted"
expect 0 "$ringload" sum "$work/m" --mapped --dtype f32 --unmappable copy
cmp "$work/wanted" "$work/out" || fail "sum --mapped --unmappable copy"
for allocation in load file tensor; do
  expect 0 "$ringload" sum "$work/m" --dtype f32 --allocation $allocation
  cmp "$work/wanted" "$work/out" || fail "sum --allocation $allocation"
done

# Two arenas of the host are two devices: what goes to both is read once.
# load_to_two ARGUMENT...: sets $bytes, and the bytes that were read, $read.
load_to_two() {
  expect 0 "$ringload" load "$work/m" --device host,host --json "$@"
  bytes=$("$json" get bytes <"$work/out") read=$("$json" get bytes_read <"$work/out")
}
expect 0 "$ringload" load "$work/m" --json
once=$("$json" get bytes <"$work/out")
load_to_two
[ "$bytes" -eq "$once" ] || fail "two devices: $bytes of $once bytes"
one_read=$read
load_to_two --place all
[ "$bytes" -eq $((2 * once)) ] || fail "--place all: $bytes of $((2 * once)) bytes"
[ "$read" -eq "$one_read" ] || fail "--place all: $read bytes are read, not $one_read"
for place in spread dim0; do
  load_to_two --place $place
  [ "$bytes" -eq "$once" ] || fail "--place $place: $bytes of $once bytes"
  [ "$read" -le $((one_read + one_read / 20)) ] || fail "--place $place: $read bytes are read"
done
load_to_two --place all --place '*_proj.weight:dim1' --place "$q:1"
[ "$bytes" -gt "$once" ] && [ "$bytes" -lt $((2 * once)) ] || fail "--place: $bytes"
expect 1 "$ringload" load "$work/m" --device host,host --place 2
complains 'device 2 was requested, expected less than 2'
expect 1 "$ringload" load "$work/m" --device host,host --place 'none:1'
complains "no tensor matches 'none'"
