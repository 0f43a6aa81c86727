# SPDX-License-Identifier: Apache-2.0
#
# many_tensors.sh RINGLOAD JSON_TOOL: 20,000 tensors of a few bytes, with both engines.

. "$(dirname "$0")/support.sh"

"$ringload" make "$work/many.safetensors" --bytes 100003 --tensors 20000 --order name >/dev/null
"$ringload" ls "$work/many.safetensors" --json >"$work/catalog" || fail "ls"
[ "$("$ringload" ls "$work/many.safetensors" | grep -c '^tensor\.')" -eq 20000 ] || fail "table"
"$json" sums <"$work/catalog" >"$work/wanted" || fail "reference"
[ "$(wc -l <"$work/wanted")" -eq 20000 ] || fail "20,000 were made"

# Every thousandth by coreutils as well, so that the reference is not trusted blindly.
awk 'NR % 1000 == 10' "$work/catalog" | sums_by_coreutils >"$work/some"
[ "$(wc -l <"$work/some")" -eq 20 ] || fail "20 of them"
[ "$(grep -c -x -F -f "$work/some" "$work/wanted")" -eq 20 ] || fail "the reference is wrong"

for engine in auto ring threads; do
  if [ $engine = ring ] && ! can_load "$work/many.safetensors" --engine ring; then
    echo "not checked: engine ring"
    continue
  fi
  expect 0 "$ringload" sum "$work/many.safetensors" --engine $engine
  cmp "$work/wanted" "$work/out" || fail "sum differs with engine $engine"
done
