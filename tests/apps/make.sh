# SPDX-License-Identifier: Apache-2.0
#
# make.sh RINGLOAD JSON_TOOL: what make writes, what it refuses, and that it leaves nothing behind.

. "$(dirname "$0")/support.sh"

same() {
  cmp "$1" "$2" || fail "$1 and $2 differ"
}

# The same words make the same bytes, another seed others.
"$ringload" make "$work/a.safetensors" --bytes 3000001 --seed 5 >/dev/null || fail "make"
"$ringload" make "$work/b.safetensors" --bytes 3000001 --seed 5 >/dev/null
"$ringload" make "$work/c.safetensors" --bytes 3000001 --seed 6 >/dev/null
same "$work/a.safetensors" "$work/b.safetensors"
! cmp -s "$work/a.safetensors" "$work/c.safetensors" || fail "the seed makes no difference"

# The header is as long as it says, ends on a multiple of 8, and the file holds just what it should.
header=$(od -A n -t u8 -N 8 "$work/a.safetensors" | tr -d ' ')
[ $((header % 8)) -eq 0 ] || fail "header of $header bytes"
[ "$(wc -c <"$work/a.safetensors")" -eq $((8 + header + 3000001)) ] || fail "size of the file"
tail -c +9 "$work/a.safetensors" | head -c "$header" | "$json" get __metadata__.format >"$work/out"
[ "$(cat "$work/out")" = pt ] || fail "metadata"

# A folder: one file has no index, more have.
"$ringload" make "$work/one" --bytes 1K >/dev/null
[ "$(ls -A "$work/one")" = model.safetensors ] || fail "one: $(ls -A "$work/one")"
"$ringload" make "$work/three/" --bytes 5M --shards 3 --shape llama >/dev/null
[ "$(ls -A "$work/three" | wc -l)" -eq 4 ] || fail "three: $(ls -A "$work/three")"
"$json" get metadata.total_size <"$work/three/model.safetensors.index.json" >"$work/out"
[ "$(cat "$work/out")" = 5242880 ] || fail "total_size: $(cat "$work/out")"
"$ringload" ls "$work/three" >"$work/out" || fail "ls"
grep -q 'model.layers.0.self_attn.q_proj.weight  *BF16' "$work/out" || fail "no llama"
grep -q '5,242,880 bytes' "$work/out" || fail "$(tail -n 2 "$work/out")"
! grep -q '^note' "$work/out" || fail "$(grep '^note' "$work/out")"

# What is there stays, unless --force says otherwise; and then only a checkpoint goes.
for path in "$work/a.safetensors" "$work/one" "$work/three"; do
  expect 1 "$ringload" make "$path" --bytes 1K
  complains 'exists'
done
same "$work/a.safetensors" "$work/b.safetensors"
expect 0 "$ringload" make "$work/a.safetensors" --bytes 1K --force
! cmp -s "$work/a.safetensors" "$work/b.safetensors" || fail "--force replaces no file"
expect 0 "$ringload" make "$work/three" --bytes 1K --force
[ "$(ls -A "$work/three")" = model.safetensors ] || fail "--force replaces no folder"
: >"$work/one/notes.txt"
expect 1 "$ringload" make "$work/one" --bytes 1K --force
complains 'notes.txt'
[ -e "$work/one/model.safetensors" ] || fail "--force removes what it should not"
ln -s three "$work/link"
expect 1 "$ringload" make "$work/link" --bytes 1K --force
complains 'link'

# Nowhere to write.
for path in "$work/no/such/x" . / '' "$work/a.safetensors/x"; do
  expect 1 "$ringload" make "$path" --bytes 1K
  complains '^ringload: error: '
done

# A limit on the size of files stands for a disk that is full.
mkdir "$work/small"
code=0
(
  ulimit -f 200
  exec "$ringload" make "$work/small/x.safetensors" --bytes 10M
) >"$work/out" 2>"$work/err" || code=$?
[ "$code" -eq 1 ] || fail "exit code $code at the limit on the size of files"
complains '^ringload: error: .*x.safetensors: File too large'
[ -z "$(ls -A "$work/small")" ] || fail "leaves $(ls -A "$work/small")"

# A disk that is full, where we may mount one.
code=0
unshare --mount --map-root-user sh -c '
  mount -t tmpfs -o size=1m none "$2" || exit 99
  "$1" make "$2/x" --bytes 2M --shards 2 || code=$?
  [ -z "$(ls -A "$2")" ] || exit 98
  exit "${code:-0}"' sh "$ringload" "$work/small" >"$work/out" 2>"$work/err" || code=$?
case $code in
  1)
    if grep -q '^unshare' "$work/err"; then
      echo "not checked: a full disk"
    else
      complains '^ringload: error: .*: No space left on device'
    fi
    ;;
  98) fail "leaves something on a full disk" ;;
  99 | 127) echo "not checked: a full disk" ;;
  *) fail "exit code $code on a full disk" ;;
esac
