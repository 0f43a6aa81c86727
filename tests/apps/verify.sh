# SPDX-License-Identifier: Apache-2.0
#
# verify.sh RINGLOAD JSON_TOOL: checksum lists as sum writes them, load checks them, verify reports
# on them; and whole files of a Hugging Face cache.

. "$(dirname "$0")/support.sh"

"$ringload" make "$work/m" --bytes 3000001 --shards 2 --order name >/dev/null || fail "make"
shard=$work/m/model-00002-of-00002.safetensors

# What --checksums writes is what sum prints, and the algorithm before it.
expect 0 "$ringload" sum "$work/m"
cp "$work/out" "$work/printed"
expect 0 "$ringload" sum "$work/m" --checksums "$work/sha256.sums"
silent
[ ! -s "$work/out" ] || fail "sum --checksums prints too"
sed 's/^sha256 //' "$work/sha256.sums" | cmp - "$work/printed" || fail "the checksum list differs"
expect 0 "$ringload" sum "$work/m" --algorithm crc32c --checksums "$work/crc32c.sums"
[ -z "$(grep -v '^crc32c [0-9a-f]\{8\}  ' "$work/crc32c.sums")" ] || fail "no crc32c checksum list"
[ -z "$(ls -A "$work" | grep [.]ringload-)" ] || fail "a temporary file is left"

for kind in sha256 crc32c; do
  expect 0 "$ringload" load "$work/m" --verify "$work/$kind.sums"
  silent
  grep -q '^verified  *3,000,001 bytes' "$work/out" || fail "no word of it: $(cat "$work/out")"
  expect 0 "$ringload" verify "$work/m" --checksums "$work/$kind.sums"
  silent
  [ "$(wc -l <"$work/out")" -eq 16 ] || fail "not one line for each tensor"
  [ -z "$(grep -v '^ok      tensor' "$work/out")" ] || fail "$(cat "$work/out")"
done
expect 0 "$ringload" verify "$work/m" --checksums "$work/sha256.sums" --json
fits ringload/verify
silent
"$json" get source right wrong tensors <"$work/out" >"$work/values" || fail "verify --json"
[ "$(sed -n 1p "$work/values")" = "$work/m" ] || fail "source: $(cat "$work/values")"
[ "$(sed -n 2,3p "$work/values" | tr '\n' ' ')" = '16 0 ' ] || fail "totals: $(cat "$work/values")"
[ "$(sed -n 4p "$work/values" | grep -o '"right":true' | wc -l)" -eq 16 ] || fail "no verdicts"
expect 0 "$ringload" load "$work/m" --verify "$work/sha256.sums" --json
"$json" get bytes_verified <"$work/out" >"$work/values" || fail "json"
[ "$(cat "$work/values")" = 3000001 ] || fail "bytes_verified: $(cat "$work/values")"

# One byte of one tensor.
cp "$shard" "$work/good"
size=$(wc -c <"$shard")
printf '\125' | dd of="$shard" bs=1 seek=$((size - 1)) conv=notrunc 2>/dev/null
cmp -s "$shard" "$work/good" && printf '\252' |
  dd of="$shard" bs=1 seek=$((size - 1)) conv=notrunc 2>/dev/null
for kind in sha256 crc32c; do
  expect 1 "$ringload" load "$work/m" --verify "$work/$kind.sums"
  complains "^ringload: error: .*model-00002-of-00002.safetensors: tensor '.*': its $kind is "
  [ ! -s "$work/out" ] || fail "a load that failed prints"
  expect 1 "$ringload" verify "$work/m" --checksums "$work/$kind.sums"
  complains '1 of 16 tensors'
  [ "$(grep -c '^FAILED  ' "$work/out")" -eq 1 ] || fail "$(cat "$work/out")"
  [ "$(wc -l <"$work/out")" -eq 16 ] || fail "verify ends at the first that differs"
done
expect 1 "$ringload" verify "$work/m" --checksums "$work/crc32c.sums" --json
fits ringload/verify
complains '1 of 16 tensors'
"$json" get right wrong tensors <"$work/out" >"$work/values" || fail "verify --json"
[ "$(sed -n 1,2p "$work/values" | tr '\n' ' ')" = '15 1 ' ] || fail "totals: $(cat "$work/values")"
grep -q '"right":false,"why":"crc32c is [0-9a-f]*, but the checksum list' "$work/values" ||
  fail "why: $(cat "$work/values")"
cp "$work/good" "$shard"

# A tensor too few, and one too many.
sed 1d "$work/crc32c.sums" >"$work/few.sums"
name=$(sed -n '1s/.*  //p' "$work/crc32c.sums")
expect 1 "$ringload" load "$work/m" --verify "$work/few.sums"
complains "few.sums: tensor '$name': the tensor is in the checkpoint"
expect 1 "$ringload" verify "$work/m" --checksums "$work/few.sums"
grep -q "^FAILED  $name: the tensor is not in the checksum list" "$work/out" ||
  fail "$(cat "$work/out")"
(cat "$work/crc32c.sums" && echo 'crc32c 00000000  another') >"$work/many.sums"
expect 1 "$ringload" load "$work/m" --verify "$work/many.sums"
complains "many.sums: tensor 'another': the tensor is in the checksum list"
expect 1 "$ringload" verify "$work/m" --checksums "$work/many.sums"
grep -q '^FAILED  another: the tensor is not in the checkpoint' "$work/out" ||
  fail "$(cat "$work/out")"

# Files that are not checksum lists.
(cat "$work/crc32c.sums" && echo nonsense) >"$work/bad.sums"
mkfifo "$work/fifo.sums"
for command in "load $work/m --verify" "verify $work/m --checksums"; do
  # shellcheck disable=SC2086
  expect 1 "$ringload" $command "$work/bad.sums"
  complains 'bad.sums: line 17: '
  # shellcheck disable=SC2086
  expect 1 timeout 60 "$ringload" $command "$work/fifo.sums"
  complains 'fifo.sums: '
  # shellcheck disable=SC2086
  expect 1 "$ringload" $command "$work/missing.sums"
  complains 'missing.sums: '
done

# A checksum list is of the bytes in the files: one of converted tensors could never be checked.
expect 2 "$ringload" sum "$work/m" --dtype bf16 --checksums "$work/bf16.sums"
complains '^ringload: usage: --dtype: cannot be used with --checksums'
[ ! -e "$work/bf16.sums" ] || fail "a checksum list of converted tensors"
expect 2 "$ringload" verify "$work/m" --dtype bf16 --checksums "$work/sha256.sums"
expect 2 "$ringload" verify "$work/m" --slots 3
complains '^ringload: usage: --slots requires --checksums'

# What is in the checksum list is not printed too, but how the load went is.
expect 0 "$ringload" sum "$work/m" --checksums "$work/again.sums" --json
cmp "$work/sha256.sums" "$work/again.sums" || fail "sum --json writes another checksum list"
[ "$("$json" get load.tensors <"$work/out")" = 16 ] || fail "sum --json --checksums"
! grep -q sha256 "$work/out" || fail "sum --json --checksums prints digests"

# If the checksum list cannot be written, nothing is loaded: the missing checkpoint is not reported.
expect 1 "$ringload" sum "$work/missing" --checksums "$work/no/such.sums"
complains 'such.sums: '

# What cannot be written leaves what was there.
expect 1 "$ringload" sum "$work/m" --checksums "$work/no/such.sums"
complains 'such.sums: '
expect 1 "$ringload" sum "$work/m" --checksums "$work/fifo.sums"
complains 'not a regular file'
[ -p "$work/fifo.sums" ] || fail "the FIFO is gone"
cp "$work/crc32c.sums" "$work/before"
expect 1 "$ringload" sum "$work/missing" --checksums "$work/crc32c.sums"
cmp "$work/before" "$work/crc32c.sums" || fail "a sum that failed changes the checksum list"
[ -z "$(ls -A "$work" | grep [.]ringload-)" ] || fail "a sum that failed leaves a file"

# Nothing says what the bytes should be.
expect 1 "$ringload" verify "$work/m"
complains 'there is no digest to compare the bytes with'
[ ! -s "$work/out" ] || fail "verify prints all the same"

# A Hugging Face cache: large files are named by SHA-256, small ones as git names them.
cache=$work/hub
repository=$cache/models--owner--model
commit=0123456789abcdef0123456789abcdef01234567
mkdir -p "$repository/blobs" "$repository/refs" "$repository/snapshots/$commit"
printf '%s' $commit >"$repository/refs/main"
add() {
  cp "$1" "$repository/blobs/$2"
  ln -s "../../blobs/$2" "$repository/snapshots/$commit/$3"
}
git_name() {
  (printf 'blob %d\0' "$(wc -c <"$1")" && cat "$1") | sha1sum | cut -d ' ' -f 1
}
for file in "$work/m"/*.safetensors; do
  add "$file" "$(sha256sum <"$file" | cut -d ' ' -f 1)" "$(basename "$file")"
done
index=$work/m/model.safetensors.index.json
add "$index" "$(git_name "$index")" model.safetensors.index.json
echo '{"architectures": []}' >"$work/config.json"
add "$work/config.json" "$(git_name "$work/config.json")" config.json

verify_cached() {
  env HF_HUB_CACHE="$cache" "$ringload" verify "$@"
}
expect 0 verify_cached owner/model
silent
[ "$(grep -c '^ok      .*/snapshots/' "$work/out")" -eq 4 ] || fail "$(cat "$work/out")"
expect 0 verify_cached "$repository/snapshots/$commit"
[ "$(wc -l <"$work/out")" -eq 4 ] || fail "$(cat "$work/out")"
expect 0 verify_cached owner/model --json
"$json" get source right wrong files <"$work/out" >"$work/values" || fail "verify --json"
[ "$(sed -n 1,3p "$work/values" | tr '\n' ' ')" = 'owner/model 4 0 ' ] ||
  fail "totals: $(cat "$work/values")"
grep -q '/config.json","right":true},.*/model.safetensors.index.json' "$work/values" ||
  fail "files: $(cat "$work/values")"

# A verdict is there when its own file is done. The last file is a hole that takes hours to hash.
zeros=$(printf '%064d' 0)
if truncate -s 8T "$repository/blobs/$zeros" 2>/dev/null; then
  ln -s "../../blobs/$zeros" "$repository/snapshots/$commit/zeros.bin"
  env HF_HUB_CACHE="$cache" "$ringload" verify owner/model >"$work/out" 2>"$work/err" &
  pid=$!
  while [ "$(grep -c '^ok      ' "$work/out")" -lt 4 ]; do
    kill -0 $pid 2>/dev/null || fail "verify has ended: $(cat "$work/err")"
    sleep 0.01
  done
  kill -s INT $pid
  code=0
  wait $pid || code=$?
  [ "$code" -eq 130 ] || fail "exit code $code of an interrupted verify"
  complains '^ringload: interrupted$'
  rm "$repository/snapshots/$commit/zeros.bin" "$repository/blobs/$zeros"
else
  echo "not checked: verdicts as they come, for this file system has no large holes"
fi

# A byte of a blob.
printf X >>"$repository/blobs/$(git_name "$work/config.json")"
expect 1 verify_cached owner/model
complains '1 of 4 files'
grep -q '^FAILED  .*/config.json: its digest is ' "$work/out" || fail "$(cat "$work/out")"
blob=$repository/blobs/$(sha256sum <"$shard" | cut -d ' ' -f 1)
printf '\001' | dd of="$blob" bs=1 seek=$((size - 1)) conv=notrunc 2>/dev/null
expect 1 verify_cached owner/model
complains '2 of 4 files'

# A file that is none of the cache's, a link that leads nowhere.
rm "$repository/snapshots/$commit/config.json"
ln -s ../../blobs/gone "$repository/snapshots/$commit/config.json"
expect 1 verify_cached owner/model
grep -q '^FAILED  .*/config.json: No such file' "$work/out" || fail "$(cat "$work/out")"
