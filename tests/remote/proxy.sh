#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# proxy.sh RINGLOAD JSON_TOOL: loads from nginx, plain and over TLS, through squid, which asks for a
# user and a password.

. "$(dirname "$0")/servers.sh" "$1" "$2"
require_nginx
squid=$(command -v squid || command -v /usr/sbin/squid) || skip "no squid"
for helper in /usr/lib/squid /usr/lib64/squid /usr/libexec/squid; do
  [ ! -x "$helper/basic_ncsa_auth" ] || break
done
[ -x "$helper/basic_ncsa_auth" ] || skip "no basic_ncsa_auth of squid"

make_certificate
mkdir "$work/www" "$work/tmp"
"$ringload" make "$work/www/x.safetensors" --bytes 40M --no-progress >/dev/null || exit 1
"$ringload" make "$work/www/three" --bytes 30M --shards 3 --no-progress >/dev/null ||
  exit 1
printf 'somebody:%s\n' "$(openssl passwd -apr1 'p@ss:word')" >"$work/users"
chmod -R a+rX "$work"

# configure PORT: the two servers use this port and the next two.
configure() {
  write_nginx_conf <<CONF
  server {
    listen 127.0.0.1:$1;
    listen 127.0.0.1:$(($1 + 1)) ssl;
    ssl_certificate $work/cert.pem;
    ssl_certificate_key $work/key.pem;
    root $work/www;
  }
CONF
  cat >"$work/squid.conf" <<CONF
http_port 127.0.0.1:$(($1 + 2))
pid_filename none
visible_hostname localhost
cache deny all
cache_log $work/squid.log
access_log stdio:$work/access.log
logfile_rotate 0
shutdown_lifetime 0 seconds
auth_param basic program $helper/basic_ncsa_auth $work/users
acl known proxy_auth REQUIRED
http_access allow known
http_access deny all
CONF
}
running() {
  kill -0 "$1" 2>/dev/null
}
# Squid's user must write its logs.
: >"$work/access.log"
: >"$work/squid.log"
chmod 666 "$work/access.log" "$work/squid.log"
for try in 1 2 3 4 5; do
  port=$((20000 + ($$ * 7 + try * 911) % 20000))
  configure $port
  "$nginx" -p "$work" -c "$work/nginx.conf" -e "$work/error.log" 2>>"$work/nginx" &
  origin=$!
  "$squid" -N -f "$work/squid.conf" >"$work/squid" 2>&1 &
  proxy=$!
  servers="$origin $proxy"
  for _ in $(seq 200); do
    grep -q 'Accepting HTTP' "$work/squid.log" && [ -s "$work/nginx.pid" ] && break
    running $proxy && running $origin || break
    sleep 0.05
  done
  grep -q 'Accepting HTTP' "$work/squid.log" && running $origin && break
  stop_servers
done
[ -n "$servers" ] || fail "the servers do not start: $(cat "$work/squid.log" "$work/nginx")"

http=http://127.0.0.1:$port
https=https://localhost:$((port + 1))
address=127.0.0.1:$((port + 2))
known=http://somebody:p%40ss%3Aword@$address
quick="--no-progress --anonymous --cache off --ca-file $work/cert.pem"

# requests: how many the proxy has passed on, once its log is written.
requests() {
  grep -c -e 'TCP_MISS/2' -e 'TCP_TUNNEL/200' "$work/access.log"
}

for from in "$http" "$https"; do
  same "$from/x.safetensors" "$work/www/x.safetensors" --proxy "$known"
  same "$from/three/model.safetensors.index.json" "$work/www/three" --proxy "$known"
done
# The proxy of the environment, and hosts without it.
export HTTPS_PROXY="$known"
before=$(requests)
same "$http/x.safetensors" "$work/www/x.safetensors"
[ "$(requests)" -gt "$before" ] || fail "the proxy of HTTPS_PROXY is not used"
before=$(wc -l <"$work/access.log")
NO_PROXY=localhost,127.0.0.0/8 same "$http/x.safetensors" "$work/www/x.safetensors"
NO_PROXY=.example.com,localhost same "$https/x.safetensors" "$work/www/x.safetensors"
[ "$(wc -l <"$work/access.log")" -eq "$before" ] || fail "NO_PROXY is not obeyed"
# shellcheck disable=SC2086
expect 0 "$ringload" convert "$https/x.safetensors" "$work/copy.safetensors" $quick
expect 0 "$ringload" sum "$work/copy.safetensors" --no-progress
mv "$work/out" "$work/found"
expect 0 "$ringload" sum "$work/www/x.safetensors" --no-progress
cmp -s "$work/out" "$work/found" || fail "other digests of the copy"

# A proxy of another kind refuses addresses by its variable's name, and no file of this machine.
HTTPS_PROXY=socks5://$address
expect 1 "$ringload" ls "$http/x.safetensors"
complains '^ringload: error: HTTPS_PROXY: .*http://'
expect 0 "$ringload" ls "$work/www/x.safetensors"
unset HTTPS_PROXY

for wrong in "http://$address" "http://somebody:secret@$address" "http://nobody:secret@$address"; do
  for from in "$http" "$https"; do
    # shellcheck disable=SC2086
    expect 1 "$ringload" sum "$from/x.safetensors" $quick --proxy "$wrong"
    complains 407
    ! grep -q secret "$work/err" || fail "the password was shown: $(cat "$work/err")"
  done
done
