# SPDX-License-Identifier: Apache-2.0
#
# memory_groups.sh RINGLOAD [LOADS [CONVERTS]]: no load is killed in a control group of the model's
# size plus 256 MiB, and no conversion in a group of 256 MiB, from several formats and by both
# engines. Each conversion ends with the right bytes. A group that is too small for a tensor is
# refused with both numbers. No conversion is killed in groups of 64 and 200 MiB.

. "$(dirname "$0")/support.sh"
loads=${2:-20}
converts=${3:-10}
make_memory_group

model=$work/m.safetensors
"$ringload" make "$model" --bytes 320M --shape llama --no-progress >/dev/null || fail "make"
"$ringload" make "$work/misaligned.safetensors" --bytes 64M --order name --no-progress >/dev/null ||
  fail "make"
"$ringload" make "$work/shards" --bytes 128M --shards 4 --no-progress >/dev/null || fail "make"
"$ringload" convert "$model" "$work/plain.zt" --no-progress >/dev/null || fail "convert"
"$ringload" convert "$work/shards" "$work/zstd.zt" --zstd 1 --no-progress >/dev/null ||
  fail "convert"

# sums_of SOURCE: the digests of the tensors, without their names.
sums_of() {
  "$ringload" sum "$1" | sed 's/ .*//' | sort || fail "sum of $1"
}

# choose_model NUMBER: sets the source of a run and the MiB of its tensors.
choose_model() {
  case $(($1 % 5)) in
    0) source=$model && mib=320 ;;
    1) source=$work/misaligned.safetensors && mib=64 ;;
    2) source=$work/shards && mib=128 ;;
    3) source=$work/plain.zt && mib=320 ;;
    4) source=$work/zstd.zt && mib=128 ;;
  esac
}

for i in $(seq "$loads"); do
  choose_model "$i"
  case $((i / 5 % 4)) in
    0) set -- ;;
    1) set -- --route buffered ;;
    2) set -- --engine threads ;;
    3) set -- --dtype f32 && mib=$((2 * mib)) ;;  # The conversion doubles the model.
  esac
  in_group $((mib + 256)) "$ringload" load "$source" --json "$@"
  [ "$code" -eq 0 ] || fail "load $i ($source $*) ended with $code: $(cat "$work/err")"
done

for i in $(seq "$converts"); do
  choose_model "$i"
  case $((i / 5 % 4)) in
    0) target=$work/out.zt && set -- ;;
    1) target=$work/out.safetensors && set -- ;;
    2) target=$work/out.zt && set -- --zstd 1 ;;
    3) target=$work/out.safetensors && set -- --engine threads ;;
  esac
  in_group 256 "$ringload" convert "$source" "$target" --no-progress "$@"
  [ "$code" -eq 0 ] || fail "conversion $i ($source $*) ended with $code: $(cat "$work/err")"
  sums_of "$target" >"$work/new"
  sums_of "$source" | cmp -s - "$work/new" || fail "conversion $i ($source): other bytes"
  rm -f "$target"
done

# Smaller groups convert the model, or refuse a tensor with both numbers.
"$ringload" make "$work/small.safetensors" --bytes 96M --shape llama --no-progress >/dev/null ||
  fail "make"
for room in 64 200; do
  for name in m small; do
    in_group $room "$ringload" convert "$work/$name.safetensors" "$work/out.zt" --no-progress
    case $code in
      0)
        sums_of "$work/out.zt" >"$work/new"
        sums_of "$work/$name.safetensors" | cmp -s - "$work/new" ||
          fail "$name in $room MiB: other bytes"
        ;;
      1) complains 'needs a window of [0-9,]* bytes for the tensor, but the [0-9,]* bytes' ;;
      *) fail "$name in $room MiB ended with $code: $(cat "$work/err")" ;;
    esac
    rm -f "$work/out.zt"
  done
done

# The largest tensor has more bytes than the group.
"$ringload" make "$work/big.safetensors" --bytes 300M --tensors 1 --force --no-progress \
  >/dev/null || fail "make"
in_group 128 "$ringload" convert "$work/big.safetensors" "$work/big.zt" --no-progress
[ "$code" -eq 1 ] || fail "a group that is too small: exit code $code: $(cat "$work/err")"
complains 'needs a window of [0-9,]* bytes for the tensor, but the [0-9,]* bytes of memory'
[ ! -e "$work/big.zt" ] || fail "a refused conversion leaves a file"
