#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# Loads from nginx, plain and over TLS, and from one that limits, cuts and refuses.
#
#   nginx.sh RINGLOAD JSON_TOOL URING_BENCH [MODEL_SERVER]

. "$(dirname "$0")/servers.sh" "$1" "$2"
bench=$3
server=${4-}
trap 'stop_servers; wait; rm -rf "$work"' EXIT

require_nginx
"$ringload" ls --help | grep -q -e --ca-file || skip "this ringload has no component remote"

make_certificate

mkdir "$work/www" "$work/tmp"
"$ringload" make "$work/www/one.safetensors" --bytes 40M --tensors 12 --no-progress || exit 1
"$ringload" make "$work/www/large.safetensors" --bytes 100M --tensors 40 --no-progress || exit 1
"$ringload" make "$work/www/three" --bytes 30M --tensors 9 --shards 3 --no-progress || exit 1
cp "$(dirname "$0")/../data/zt/all.zt" "$work/www/all.zt" || exit 1

# A port that is free now: nginx cannot say which it took.
configure() {
  write_nginx_conf <<CONF
  limit_req_zone \$server_port zone=few:1m rate=200r/s;
  server {
    listen 127.0.0.1:$1;
    root $work/www;
    location /limited/ { alias $work/www/; limit_req zone=few burst=4 nodelay; }
    location /short/ { alias $work/www/; keepalive_requests 2; }
    location /whole/ { alias $work/www/; max_ranges 0; }
    location /slow/ { alias $work/www/; limit_rate 4m; access_log $work/slow.log; }
    location /denied/ { return 403; }
    location /secure/ { rewrite ^/secure(.*)$ https://localhost:$2\$1 redirect; }
  }
  server {
    listen 127.0.0.1:$2 ssl;
    listen 127.0.0.2:$2 ssl;
    ssl_certificate $work/cert.pem;
    ssl_certificate_key $work/key.pem;
    root $work/www;
    location /moved/ { rewrite ^/moved(.*)$ http://127.0.0.1:$1\$1 redirect; }
  }
CONF
}

for try in 1 2 3 4 5; do
  plain=$((20000 + ($$ * 7 + try * 911) % 20000))
  tls=$((plain + 1))
  configure $plain $tls
  "$nginx" -p "$work" -c "$work/nginx.conf" -e "$work/error.log" 2>>"$work/nginx" &
  servers=$!
  for _ in $(seq 100); do
    [ -s "$work/nginx.pid" ] && break
    kill -0 $servers 2>/dev/null || break
    sleep 0.05
  done
  [ -s "$work/nginx.pid" ] && break
  servers=
done
[ -n "$servers" ] || fail "nginx does not start: $(cat "$work/nginx" "$work/error.log")"
http=http://127.0.0.1:$plain
https=https://localhost:$tls
quick="--no-progress --anonymous --cache off"


one=$work/www/one.safetensors
for options in "" "--connections 1" "--connections 5 --chunk-bytes 64K" \
  "--chunk-bytes 16M --slot-bytes 16M"; do
  # shellcheck disable=SC2086
  same "$http/one.safetensors" "$one" $options
  # shellcheck disable=SC2086
  same "$https/one.safetensors" "$one" --ca-file "$work/cert.pem" $options
done
same "https://127.0.0.1:$tls/one.safetensors" "$one" --ca-file "$work/cert.pem"
same "$http/three/model.safetensors.index.json" "$work/www/three"
same "$http/short/one.safetensors" "$one" --connections 3 --chunk-bytes 1M
same "$http/limited/one.safetensors" "$one" --connections 8 --chunk-bytes 1M
same "$http/whole/one.safetensors" "$one"
same "$http/whole/large.safetensors" "$work/www/large.safetensors"
same "$http/whole/large.safetensors" "$work/www/large.safetensors" --slots 3 --slot-bytes 1M
same "$http/whole/three/model.safetensors.index.json" "$work/www/three" --connections 2
same "$http/secure/one.safetensors" "$one" --ca-file "$work/cert.pem"
same "HTTP://127.0.0.1:$plain/one.safetensors" "$one"

# shellcheck disable=SC2086
{
  expect 0 "$ringload" ls "$http/one.safetensors" --json --anonymous --cache off
  grep -q "\"file\": \"$http/one.safetensors\"" "$work/out" || fail "ls does not name the address"
  expect 0 "$ringload" load "$http/one.safetensors" $quick
  expect 0 "$ringload" convert "$http/one.safetensors" "$work/copy.safetensors" $quick
  expect 1 "$ringload" sum "$https/one.safetensors" $quick
  complains "certificate is not trusted"
  expect 1 "$ringload" sum "https://127.0.0.2:$tls/one.safetensors" $quick \
    --ca-file "$work/cert.pem"
  complains "server's certificate is not valid for the host '127.0.0.2'"
  expect 1 "$ringload" sum "$https/moved/one.safetensors" $quick --ca-file "$work/cert.pem"
  complains "redirected from https to http://127.0.0.1:$plain, which is not followed"
  expect 1 "$ringload" sum "$http/one.safetensors" $quick --ca-file "$work/nosuch"
  complains "^ringload: error: --ca-file: .*'$work/nosuch': .*No such file"
  expect 1 "$ringload" sum "$http/one.safetensors" $quick --proxy garbage
  complains '^ringload: error: --proxy: '
  HF_ENDPOINT=garbage expect 1 "$ringload" sum "$http/one.safetensors" $quick
  complains '^ringload: error: HF_ENDPOINT: expected an address that begins'
  AWS_ENDPOINT_URL_S3=garbage expect 1 "$ringload" sum "$http/one.safetensors" $quick
  complains '^ringload: error: AWS_ENDPOINT_URL_S3: expected an address that begins'
  expect 1 "$ringload" sum "https://127.0.0.1:$plain/one.safetensors" $quick
  expect 1 "$ringload" sum "$http/denied/one.safetensors?token=secret" $quick
  complains 403
  grep -q secret "$work/err" && fail "a credential is in an error"
  expect 1 "$ringload" sum "$http/none.safetensors" $quick
  complains 404
  expect 1 "$ringload" sum "$http/one.safetensors" --offline $quick
  complains offline
}

# A remote .zt file is loaded, because only a local one can be copied as it is stored.
for options in "" "--digest sha256" "--zstd 3"; do
  rm -f "$work/copy.zt"
  # shellcheck disable=SC2086
  expect 0 "$ringload" convert "$http/all.zt" "$work/copy.zt" $quick $options
  same "$work/copy.zt" "$work/www/all.zt"
  for file in "$work/copy.zt" "$work/www/all.zt"; do
    expect 0 "$ringload" ls "$file" --json
    "$json" get composites <"$work/out" | sed 's/"file":"[^"]*"//g' \
      >"$work/$(basename "$file").objects"
  done
  cmp "$work/copy.zt.objects" "$work/all.zt.objects" || fail "other objects: $options"
done

# An object that is replaced while it is read.
cp "$one" "$work/www/two.safetensors"
# shellcheck disable=SC2086
"$ringload" sum "$http/slow/two.safetensors" $quick --connections 2 --chunk-bytes 64K \
  >"$work/out" 2>"$work/err" &
reading=$!
while [ "$(wc -l 2>/dev/null <"$work/slow.log")" -lt 5 ]; do
  kill -0 $reading 2>/dev/null || fail "a slow load was not slow: $(cat "$work/err")"
  sleep 0.01
done
cp "$one" "$work/www/other" && printf x >>"$work/www/other"
mv "$work/www/other" "$work/www/two.safetensors"
wait $reading && fail "an object that was replaced is loaded"
complains "replaced after it was opened\|has become\|ETag has changed\|but now has"

# What it measures here is small, and no figure is judged.
expect 0 "$bench" net "$http/one.safetensors" --connections 1,4 --chunks 1M --seconds 0.1 --runs 2 \
  --anonymous --json
silent
[ "$("$json" get file_bytes <"$work/out")" -eq "$(wc -c <"$one")" ] || fail "net: another size"
"$json" get wall <"$work/out" | grep -q . || fail "net: no wall"
grep -q "\"connections\": 4, \"chunk_bytes\": 1048576" "$work/out" || fail "net: other cells"
expect 0 "$bench" net "$https/one.safetensors" --connections 2 --chunks 1M --seconds 0.1 --runs 1 \
  --anonymous --ca-file "$work/cert.pem"
grep -q "^ringload load TARGET --connections 2 --chunk-bytes 1024K" "$work/out" || fail "net: text"
for refused in "$http/none.safetensors" "$http/three/model.safetensors.index.json" "$one"; do
  expect 1 "$bench" net "$refused" --seconds 0.1 --runs 1 --anonymous
done

if [ -n "$server" ]; then
  "$ringload" make "$work/www/served.safetensors" --bytes 3M --tensors 4 --no-progress
  "$server" --allow-host 127.0.0.1 --port 0 --model "$http/served.safetensors" >"$work/server" \
    2>&1 &
  servers="$servers $!"
  for _ in $(seq 100); do
    grep -q 'http://' "$work/server" 2>/dev/null && break
    sleep 0.05
  done
  address=$(sed -n 's/.*\(http:\/\/[0-9.:]*\).*/\1/p' "$work/server" | head -n 1)
  [ -n "$address" ] || fail "the model server does not start: $(cat "$work/server")"
  if command -v curl >/dev/null; then
    code=$(curl -s -o "$work/answer" -w '%{http_code}' -H 'Content-Type: application/json' \
      -d "{\"source\": \"$https/served.safetensors\", \"id\": \"x\"}" "$address/models")
    [ "$code" = 403 ] || fail "a host that nobody named is fetched from: $code"
    for _ in $(seq 100); do
      curl -s "$address/models/main" >"$work/answer"
      grep -q '"ready"' "$work/answer" && break
      sleep 0.05
    done
    grep -q '"ready"' "$work/answer" || fail "the model is not served: $(cat "$work/answer")"
  fi
fi
