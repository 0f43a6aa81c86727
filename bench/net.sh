#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# net.sh RINGLOAD [BYTES [DELAY_MS [LOSS_PERCENT]]]: loads from nginx beside what curl gets with as
# many connections, in turns, five times each; and on loopback beside the page cache. With a delay
# (round trip) or a loss nginx is put into a network namespace behind tc's netem, which takes root.
# Prints one line for each run: who, bytes, seconds, GB/s.

set -eu
ringload=$(realpath "$1")
bytes=${2:-1G}
delay=${3:-0}
loss=${4:-0}
connections=16
rounds=5
work=$(mktemp -d "${TMPDIR:-/tmp}/ringload-net-XXXXXX")
space=ringload-net-$$
inside=()
host=127.0.0.1

finish() {
  [ ! -s "$work/nginx.pid" ] || kill "$(cat "$work/nginx.pid")"
  [ "$host" = 127.0.0.1 ] || ip netns del "$space"
  rm -rf "$work"
}
trap finish EXIT

if [ "$delay" != 0 ] || [ "$loss" != 0 ]; then
  ip netns add "$space"
  host=10.213.77.2
  ip link add rl0 type veth peer name rl1 netns "$space"
  ip addr add 10.213.77.1/24 dev rl0
  ip link set rl0 up
  ip -n "$space" addr add $host/24 dev rl1
  ip -n "$space" link set rl1 up
  ip -n "$space" link set lo up
  # All of the delay on the way to us: what is asked for is small.
  tc -n "$space" qdisc add dev rl1 root netem limit 1000000 delay "${delay}ms" loss "${loss}%"
  inside=(ip netns exec "$space")
fi

"$ringload" make "$work/x.safetensors" --bytes "$bytes" --no-progress >/dev/null
size=$(stat -c %s "$work/x.safetensors")
user=
[ "$(id -u)" -ne 0 ] || user="user root;"
cat >"$work/nginx.conf" <<CONF
$user
daemon on;
pid $work/nginx.pid;
error_log $work/error.log;
worker_processes 1;
events { worker_connections 1024; }
http {
  access_log off;
  sendfile on;
  tcp_nopush on;
  keepalive_requests 100000;
  server { listen $host:28080; root $work; }
}
CONF
"${inside[@]}" "$(command -v nginx || echo /usr/sbin/nginx)" -c "$work/nginx.conf" \
  -e "$work/error.log"
url=http://$host:28080/x.safetensors

# Reads as `connections` ranges of equal size, each by a connection of its own.
by_curl() {
  local part=$(((size + connections - 1) / connections)) i
  for ((i = 0; i < connections; ++i)); do
    [ $((i * part)) -ge "$size" ] && break
    [ "$i" -eq 0 ] || echo next
    printf 'url = "%s"\nrange = "%d-%d"\noutput = "/dev/null"\n' "$url" $((i * part)) \
      $(((i + 1) * part - 1))
  done >"$work/curl"
  curl -s --parallel --parallel-immediate --parallel-max $connections -K "$work/curl"
}
by_ringload() {
  "$ringload" load "$1" --no-progress --anonymous --cache off --slots $connections \
    --connections $connections --route buffered >/dev/null
}
timed() {
  local name=$1 begin end
  shift
  begin=$(date +%s.%N)
  "$@"
  end=$(date +%s.%N)
  awk -v n="$name" -v b="$size" -v s="$(echo "$end - $begin" | bc)" \
    'BEGIN { printf "%-12s %d bytes %.3f s %.3f GB/s\n", n, b, s, b / s / 1e9 }'
}
cat "$work/x.safetensors" >/dev/null
for ((round = 0; round < rounds; ++round)); do
  timed curl by_curl
  timed ringload by_ringload "$url"
  [ "$host" != 127.0.0.1 ] || timed page-cache by_ringload "$work/x.safetensors"
done
