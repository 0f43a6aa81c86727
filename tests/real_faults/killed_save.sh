# SPDX-License-Identifier: Apache-2.0
#
# killed_save.sh SAVE_TOOL [KILLS]: a save over what another save wrote is killed at a random
# moment, so many times. What stands under the name is then one of both, byte by byte.

. "$(dirname "$0")/support.sh"
kills=${2:-20}
dd if=/dev/urandom of="$work/memory" bs=1M count=24 status=none
# Two checkpoints of the same tensors, in other memory: one file, or shards.
tensors() {
  for i in 0 1 2 3 4; do
    echo "F32 $(($1 + i * 2000001)) 500000 = t$i"
  done
}
save() {
  tensors "$1" | "$ringload" "$work/memory" $2
}
sum_of() {
  if [ -d "$1" ]; then (cd "$1" && sha256sum ./*); else sha256sum <"$1"; fi
}

replaced=0
kept=0
for options in "$work/m.safetensors" "$work/m --shard-bytes 3000000"; do
  target=${options%% *}
  save 0 "$options" || fail "a save failed"
  first=$(sum_of "$target")
  save 1 "$options" || fail "a save failed"
  second=$(sum_of "$target")
  [ "$first" != "$second" ] || fail "both are the same"
  before=$second
  next=0
  for turn in $(seq $((kills / 2))); do
    tensors $next >"$work/tensors"
    "$ringload" "$work/memory" $options <"$work/tensors" &
    child=$!
    # 0 to 255 ms.
    sleep "$(printf '0.%03d' $(od -A n -t u1 -N 1 /dev/urandom))"
    kill -KILL $child 2>/dev/null
    wait $child 2>/dev/null
    now=$(sum_of "$target")
    [ "$now" = "$first" ] || [ "$now" = "$second" ] || fail "turn $turn: neither of both"
    if [ "$now" = "$before" ]; then kept=$((kept + 1)); else replaced=$((replaced + 1)); fi
    before=$now
    if [ "$now" = "$first" ]; then next=1; else next=0; fi
    rm -rf "$work"/.ringload-*
  done
done
echo "of $((kept + replaced)) kills, $kept came before and $replaced after it was replaced"
