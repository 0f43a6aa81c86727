# SPDX-License-Identifier: Apache-2.0
#
# memory_groups.sh RINGLOAD [LOADS [CONVERTS]]: no load is killed in a control group of the model's
# size plus 256 MiB, and no conversion of a larger model in a group of 256 MiB. Each of them ends
# with the right bytes. A group that is too small for a tensor is refused with both numbers. No
# conversion is killed in groups of 64 and 200 MiB.

. "$(dirname "$0")/support.sh"
loads=${2:-8}
converts=${3:-4}
make_memory_group

model=$work/m.safetensors
"$ringload" make "$model" --bytes 320M --shape llama --no-progress >/dev/null || fail "make"
"$ringload" sum "$model" >"$work/sums" || fail "sum"

for i in $(seq "$loads"); do
  case $((i % 4)) in
    0) set -- --route buffered ;;
    1) set -- ;;
    2) set -- --engine threads ;;
    3) set -- --dtype f32 ;;
  esac
  # Conversion to f32 doubles the model.
  room=576
  [ $((i % 4)) -ne 3 ] || room=896
  in_group $room "$ringload" load "$model" --json "$@"
  [ "$code" -eq 0 ] || fail "load $i ($*) ended with $code: $(cat "$work/err")"
done

for i in $(seq "$converts"); do
  case $((i % 4)) in
    0) target=$work/out.zt && set -- --zstd 1 ;;
    1) target=$work/out.safetensors && set -- ;;
    2) target=$work/out.zt && set -- ;;
    3) target=$work/out.safetensors && set -- --engine threads ;;
  esac
  in_group 256 "$ringload" convert "$model" "$target" --no-progress "$@"
  [ "$code" -eq 0 ] || fail "conversion $i ($*) ended with $code: $(cat "$work/err")"
  "$ringload" sum "$target" | sed 's/ .*//' | sort >"$work/new" || fail "sum of $target"
  sed 's/ .*//' "$work/sums" | sort | cmp -s - "$work/new" || fail "conversion $i: other bytes"
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
        "$ringload" sum "$work/out.zt" | sed 's/ .*//' | sort >"$work/new" || fail "sum"
        "$ringload" sum "$work/$name.safetensors" | sed 's/ .*//' | sort |
          cmp -s - "$work/new" || fail "$name in $room MiB: other bytes"
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
