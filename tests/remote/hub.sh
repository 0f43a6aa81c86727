#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# hub.sh RINGLOAD JSON_TOOL: models of a stand-in for the Hugging Face hub: named in every way,
# gated, private; written into the local cache as they pass, and read from there. What
# huggingface_hub has cached is read, and it reads what we have.

. "$(dirname "$0")/servers.sh"
here=$(dirname "$0")
packages 'huggingface_hub>=1,<3'

models=$work/models
for name in model gated private; do
  mkdir -p "$models/owner"
  expect 0 "$ringload" make "$models/owner/$name" --bytes 6MiB --shards 3 --seed 1
  echo '{"model_type": "llama"}' >"$models/owner/$name/config.json"
done
expect 0 "$ringload" make "$models/owner/model@v2" --bytes 1MiB --seed 2
mkdir "$models/owner/nested"
mkdir "$models/owner/nested/unet"
expect 0 "$ringload" make "$models/owner/nested/unet/x y.safetensors" --bytes 64KiB

# begin OPTION...: the stand-in, anew.
begin() {
  stop_servers
  : >"$work/standin"
  tail -f /dev/null | "$python" "$here/hub_standin.py" "$models" --gated owner/gated \
    --private owner/private "$@" >"$work/standin" 2>&1 &
  servers=$!
  HF_ENDPOINT=$(started "the stand-in" "$work/standin" 'hub \(http[^ ]*\)')
  export HF_ENDPOINT
}
begin
log=$models/requests.log

# sums_as FOLDER OPTION...: what is summed is what the folder holds.
sums_as() {
  folder=$1
  shift
  independent=
  case "$*" in *--independent-files*) independent=--independent-files ;; esac
  # shellcheck disable=SC2086
  "$ringload" sum "$models/owner/$folder" $independent >"$work/wanted" ||
    fail "no sums of $folder"
  expect 0 "$ringload" sum "$@"
  silent
  diff "$work/wanted" "$work/out" >&2 || fail "other bytes: $*"
}

# --- names
sums_as model hf://owner/model
grep -q '^cdn GET .*model-00003-of-00003.safetensors bytes=.* plain$' "$log" ||
  fail "no shard came from the second host: $(cat "$log")"
sums_as model owner/model
sums_as model https://huggingface.co/owner/model
sums_as model@v2 hf://owner/model@v2
sums_as model@v2 https://huggingface.co/owner/model/tree/v2
sums_as model hf://owner/model/model.safetensors.index.json
sums_as "nested/unet/x y.safetensors" "hf://owner/nested/unet/x y.safetensors"
unset HF_ENDPOINT
sums_as model hf://owner/model --endpoint "$(started x "$work/standin" 'hub \(http[^ ]*\)')/"
HF_ENDPOINT=$(started x "$work/standin" 'hub \(http[^ ]*\)')
export HF_ENDPOINT
[ ! -e "$HOME/.cache" ] || fail "a cache was made where none was asked for"

# ls reads no more than heads.
: >"$log"
expect 0 "$ringload" ls hf://owner/model
silent
grep -q 'model-00001-of-00003.safetensors' "$log" || fail "ls did not look"

expect 0 "$ringload" convert hf://owner/model "$work/converted.safetensors" --no-progress
"$ringload" sum "$work/converted.safetensors" >"$work/out" || fail "no sums of what was converted"
"$ringload" sum "$models/owner/model" >"$work/wanted"
diff "$work/wanted" "$work/out" >&2 || fail "convert has other bytes"

# --- what is not there
expect 1 "$ringload" load hf://owner/absent
complains 'there is no such model, or it is private and needs a token'
expect 1 "$ringload" load hf://owner/model@v3
complains "no revision 'v3'"
expect 1 "$ringload" load hf://owner/model/absent.safetensors
complains 'the model has no such file'

# --- who may
expect 1 "$ringload" load hf://owner/gated
complains 'the model is gated: request access on its page'
expect 1 "$ringload" load hf://owner/private
complains 'private and needs a token'
export HF_TOKEN=hf_wrongtoken
expect 1 "$ringload" load hf://owner/gated
complains "gated, and this token's account has no access"
expect 1 "$ringload" load hf://owner/private
complains 'not valid or gives no access'
! grep -q hf_wrongtoken "$work/err" || fail "a token was shown"
unset HF_TOKEN
mkdir -p "$HOME/.cache/huggingface"
echo hf_goodtoken >"$HOME/.cache/huggingface/token"
: >"$log"
sums_as gated hf://owner/gated
sums_as private hf://owner/private
grep -q '^hub .* signed$' "$log" || fail "the token was not sent"
! grep '^cdn .* signed$' "$log" || fail "the token was sent to the second host"
expect 1 "$ringload" load hf://owner/gated --anonymous
complains 'the model is gated'
rm "$HOME/.cache/huggingface/token"

# --- the cache
HF_HUB_CACHE=$work/cache
export HF_HUB_CACHE
expect 1 "$ringload" load hf://owner/model --offline
complains 'the Hugging Face cache does not hold this model'
sums_as model hf://owner/model --cache fill
snapshot=$(echo "$HF_HUB_CACHE"/models--owner--model/snapshots/*)
for each in 1 2 3; do
  link=$snapshot/model-0000$each-of-00003.safetensors
  [ -L "$link" ] || fail "no link $link"
  blob=$(basename "$(readlink "$link")")
  [ "$(sha256sum <"$link")" = "$blob  -" ] || fail "$link is not what its name says"
done
[ "$(cat "$HF_HUB_CACHE/models--owner--model/refs/main")" = "$(basename "$snapshot")" ] ||
  fail "no ref"
ls "$HF_HUB_CACHE/models--owner--model/blobs" | grep ringload && fail "something was left behind"
: >"$log"
sums_as model hf://owner/model
! grep '^cdn' "$log" || fail "what the cache has was fetched"
sums_as model hf://owner/model --offline
HF_HUB_OFFLINE=1 sums_as model owner/model

# huggingface_hub reads it, offline.
HF_HUB_OFFLINE=1 "$python" - "$models/owner/model" >"$work/out" 2>&1 <<'PYTHON' ||
import filecmp, glob, os, sys
from huggingface_hub import hf_hub_download, scan_cache_dir, snapshot_download

folder = snapshot_download("owner/model")
files = sorted(os.path.basename(each) for each in glob.glob(sys.argv[1] + "/*safetensors*"))
assert len(files) == 4, files
for file in files:
    path = hf_hub_download("owner/model", file)
    assert os.path.dirname(path) == folder, path
    assert filecmp.cmp(path, os.path.join(sys.argv[1], file), shallow=False), path
assert not scan_cache_dir().warnings
PYTHON
  fail "huggingface_hub does not read what was cached: $(cat "$work/out")"

# And we what it has fetched, also where it adds to what we have.
"$python" -c 'from huggingface_hub import snapshot_download as get
get("owner/model"); get("owner/model", revision="v2"); get("owner/nested")' >"$work/out" 2>&1 ||
  fail "huggingface_hub does not fetch: $(cat "$work/out")"
sums_as model owner/model --offline
sums_as model@v2 hf://owner/model@v2 --offline
sums_as "nested/unet/x y.safetensors" "hf://owner/nested/unet/x y.safetensors" --offline

# --- interrupted
HF_HUB_CACHE=$work/cache2
begin --fail-after 3000000
expect 1 "$ringload" load hf://owner/model --cache fill --slot-bytes 128K
ls "$HF_HUB_CACHE/models--owner--model/blobs" | grep -q 'ringload.ranges$' ||
  fail "nothing was kept: $(ls -R "$HF_HUB_CACHE")"
begin
sums_as model hf://owner/model --cache fill
[ -z "$(ls "$HF_HUB_CACHE/models--owner--model/blobs" | grep ringload)" ] || fail "left behind"
fetched=$(sed -n 's/^cdn .* bytes=\([0-9]*\)-\([0-9]*\) .*/\2 \1/p' "$log" |
  awk '{ bytes += $1 - $2 + 1 } END { printf "%d", bytes }')
[ "$fetched" -lt 5500000 ] || fail "$fetched bytes were fetched again"
sums_as model hf://owner/model --offline

# Killed: what was recorded until then is there.
HF_HUB_CACHE=$work/cache3
expect 0 "$ringload" make "$models/owner/large.safetensors" --bytes 100MiB
mkdir "$models/owner/large"
mv "$models/owner/large.safetensors" "$models/owner/large/model.safetensors"
begin --fail-after 80000000
"$ringload" load hf://owner/large --cache fill --chunk-bytes 1M >/dev/null 2>&1 &
loading=$!
tries=0
until [ -e "$(echo "$HF_HUB_CACHE"/models--owner--large/blobs/*.ranges)" ]; do
  tries=$((tries + 1))
  [ $tries -lt 300 ] || fail "nothing is recorded while a load goes on"
  sleep 0.1
done
kill -KILL $loading
wait $loading
begin
sums_as large hf://owner/large --cache fill
fetched=$(sed -n 's/^cdn .* bytes=\([0-9]*\)-\([0-9]*\) .*/\2 \1/p' "$log" |
  awk '{ bytes += $1 - $2 + 1 } END { printf "%d", bytes }')
[ "$fetched" -lt 80000000 ] || fail "$fetched bytes were fetched again after a kill"

# Bytes that are not the hub's are an error where they are hashed, and are not kept.
HF_HUB_CACHE=$work/cache4
for offset in 100000 9 0; do
  begin --flip $offset
  expect 1 "$ringload" load hf://owner/model --cache fill
  complains 'hf://owner/model/model.*safetensors'
done
begin --flip 100000
expect 1 "$ringload" load hf://owner/model --cache fill
complains 'hf://owner/model/model-0000.*: the received bytes have the digest [0-9a-f]*, expected'
for cache in read off; do
  for command in load sum "load --window 64M"; do
    # shellcheck disable=SC2086
    expect 1 "$ringload" $command hf://owner/model --cache $cache
    complains 'hf://owner/model/model-0000.*: the received bytes have the digest [0-9a-f]*, expe'
  done
done
# The digest may be compared after the last tensor is written, but not after the file is published.
for _ in 1 2 3 4 5 6 7 8; do
  expect 1 "$ringload" convert hf://owner/model "$work/damaged.safetensors" --cache off
  complains 'hf://owner/model/model-0000.*: the received bytes have the digest [0-9a-f]*, expe'
  [ ! -e "$work/damaged.safetensors" ] || fail "the converted file has damaged bytes"
done
begin
sums_as model hf://owner/model --cache fill
sums_as model hf://owner/model --offline

# A file that is read in part is not compared, and the load says so.
for cache in off fill; do
  HF_HUB_CACHE=$work/cache-$cache
  expect 0 "$ringload" load hf://owner/large --cache $cache --json
  "$json" get files_unverified <"$work/out" >"$work/values" || fail "json"
  [ "$(cat "$work/values")" = 0 ] || fail "compared, but $(cat "$work/values") are told"
  HF_HUB_CACHE=$work/cache-part-$cache
  expect 0 "$ringload" load hf://owner/large --cache $cache --json --select tensor.00
  "$json" get files_unverified <"$work/out" >"$work/values" || fail "json"
  [ "$(cat "$work/values")" = 1 ] || fail "not compared, but $(cat "$work/values") are told"
  expect 0 "$ringload" load hf://owner/large --cache $cache --select tensor.00
  grep -q "not verified *1 file not compared with the hub's digest" "$work/out" ||
    fail "not told: $(cat "$work/out")"
  for result in part.zt part.safetensors; do
    rm -f "$work/$result"
    expect 0 "$ringload" convert hf://owner/large "$work/$result" --cache $cache --select tensor.00
    grep -q "^note: 1 file not compared with the hub's digest" "$work/out" ||
      fail "convert to $result does not tell: $(cat "$work/out")"
  done
  HF_HUB_CACHE=$work/cache-$cache
  for result in whole.zt whole.safetensors; do
    rm -f "$work/$result"
    expect 0 "$ringload" convert hf://owner/large "$work/$result" --cache $cache
    ! grep -q "not compared" "$work/out" || fail "convert to $result: $(cat "$work/out")"
  done
done

# --- files that have nothing to do with each other, by every name of the model
mkdir -p "$models/owner/two/sub"
"$python" - "$models/owner/two" <<'PYTHON' || fail "the files cannot be made"
import json, struct, sys

for file, name in ("one", "a"), ("sub/two", "b"):
    head = json.dumps({name: {"dtype": "U8", "shape": [4], "data_offsets": [0, 4]}}).encode()
    with open(f"{sys.argv[1]}/{file}.safetensors", "wb") as out:
        out.write(struct.pack("<Q", len(head)) + head + file.encode()[:3] + name.encode())
PYTHON
expect 1 "$ringload" load hf://owner/two/one.safetensors --independent-files
complains 'expected a folder of independent files'
HF_HUB_CACHE=$work/cache5
for name in owner/two hf://owner/two HF://owner/two http://hf.co/owner/two; do
  sums_as two "$name" --independent-files
done
# A cache that has one of them is not all of them.
expect 0 "$ringload" load hf://owner/two/one.safetensors --cache fill
for name in owner/two hf://owner/two; do
  sums_as two "$name" --independent-files
done
sums_as two owner/two --independent-files --cache fill
for name in owner/two hf://owner/two https://www.huggingface.co/owner/two; do
  sums_as two "$name" --independent-files --offline
done

# Where the hub is out of reach, what the cache has is loaded.
stop_servers
HF_HUB_CACHE=$work/cache2
sums_as model hf://owner/model
