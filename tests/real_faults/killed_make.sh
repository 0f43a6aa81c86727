# SPDX-License-Identifier: Apache-2.0
#
# killed_make.sh RINGLOAD: make is killed at a random moment, many times over. What stands under the
# final name is then whole, or is not there.

. "$(dirname "$0")/support.sh"
whole=0
for turn in $(seq 40); do
  for target in m.safetensors m; do
    shards=$((${#target} > 1 ? 1 : 3))
    "$ringload" make "$work/$target" --bytes 12M --shards $shards --no-progress >/dev/null 2>&1 &
    child=$!
    # 0 to 60 ms.
    sleep "0.0$(($(od -A n -t u1 -N 1 /dev/urandom) * 60 / 256 + 10))"
    kill -KILL $child 2>/dev/null
    wait $child 2>/dev/null
    if [ -e "$work/$target" ]; then
      expect 0 "$ringload" load "$work/$target"
      whole=$((whole + 1))
    fi
    rm -rf "$work/$target" "$work"/.ringload-*
  done
done
echo "of 80, $whole were whole and $((80 - whole)) not there"
