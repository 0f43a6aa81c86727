# SPDX-License-Identifier: Apache-2.0
#
# killed_writes.sh RINGLOAD [KILLS]: convert, append, remove and replace are killed at random
# moments, many times over. What stands under a name is then what was there before, or all that was
# to be.

. "$(dirname "$0")/support.sh"
kills=${2:-20}

"$ringload" make "$work/m.safetensors" --bytes 24M --shape llama --no-progress
"$ringload" make "$work/other.safetensors" --bytes 24M --shape llama --seed 1 --no-progress
"$ringload" convert "$work/m.safetensors" "$work/before.zt" || exit 1
"$ringload" sum "$work/before.zt" | sed 's/.*  //' >"$work/names"
first=$(head -n 1 "$work/names")
"$ringload" remove "$work/before.zt" $(sed 1,3d "$work/names") -o "$work/three.zt" || exit 1
"$ringload" remove "$work/before.zt" $(sed -n 1,3p "$work/names") -o "$work/five.zt" || exit 1
mkdir "$work/in"

# run_once VERB: in $work/in, onto t.zt. In place of the shell, so that it is what is killed.
run_once() {
  case $1 in
    convert) exec "$ringload" convert "$work/m.safetensors" "$work/in/t.zt" --zstd 1 ;;
    append) exec "$ringload" append "$work/in/t.zt" --from "$work/five.zt" ;;
    remove) exec "$ringload" remove "$work/before.zt" "$first" -o "$work/in/t.zt" ;;
    replace) exec "$ringload" replace "$work/in/t.zt" "$first" --from "$work/other.safetensors" ;;
  esac
}

prepare() {
  rm -rf "$work"/in/* "$work"/in/.r*
  case $1 in
    append) cp "$work/three.zt" "$work/in/t.zt" ;;
    replace) cp "$work/before.zt" "$work/in/t.zt" ;;
  esac
}

old=0
new=0
left=0
for verb in convert append remove replace; do
  prepare $verb
  if [ -e "$work/in/t.zt" ]; then cp "$work/in/t.zt" "$work/old"; else rm -f "$work/old"; fi
  begun=$(date +%s%N)
  (run_once $verb) || exit 1
  # The moments are spread over a fourth more than it takes.
  longest=$(($(($(date +%s%N) - begun)) / 800000))
  cp "$work/in/t.zt" "$work/new"
  for turn in $(seq $((kills / 4))); do
    prepare $verb
    random=$(od -A n -t u4 -N 4 /dev/urandom)
    run_once $verb >/dev/null 2>&1 &
    child=$!
    sleep "$(awk "BEGIN {print $random / 4294967296 * $longest / 1000}")"
    kill -KILL $child 2>/dev/null
    wait $child 2>/dev/null
    if [ ! -e "$work/in/t.zt" ]; then
      [ ! -e "$work/old" ] || { echo "$verb: the file is gone" >&2; exit 1; }
      old=$((old + 1))
    elif cmp -s "$work/in/t.zt" "$work/new"; then
      new=$((new + 1))
    elif [ -e "$work/old" ] && cmp -s "$work/in/t.zt" "$work/old"; then
      old=$((old + 1))
    else
      echo "$verb: the file is neither the old one nor the new one" >&2
      exit 1
    fi
    [ "$(ls -A "$work/in" | grep -vc '^t.zt$')" -eq 0 ] || left=$((left + 1))
  done
done
echo "of $((kills / 4 * 4)) kills, $old left the old file and $new the new one;" \
  "$left left a hidden name"
