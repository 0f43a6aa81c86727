#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# net.sh RINGLOAD [OPTION VALUE]...: loads from nginx beside what curl gets with as many
# connections, in turns; without a delay and a loss also beside the page cache.
#
#   --bytes SIZE        of the checkpoint; default 1G
#   --delay MS          a round trip more, all of it on the way from the server
#   --loss PERCENT      of packets on that way
#   --mbit N            what that way carries, where there is a delay or a loss; default 1000
#   --connections N     default 16
#   --rounds N          default 5
#   --link PROGRAM      tun_link, for kernels without netem
#   --python PROGRAM    that has huggingface_hub: its downloader, and then a local load
#   --before RINGLOAD   another build, in the same turns
#   --kept PROGRAM      bench_http, which compares with libcurl into memory that is kept
#   --more OPTIONS      for ringload, as "--chunk-bytes 2M --slots 32"
#
# The delay and the losses are tc's netem, between two network namespaces; or tun_link, a tun
# device. Both take root. Prints a line for each run (who, bytes, seconds, GB/s), then medians.

set -eu
ringload=$(realpath "$1")
shift
bytes=1G delay=0 loss=0 mbit=1000 connections=16 rounds=5
link='' python='' before='' kept='' more=''
while [ $# -gt 1 ]; do
  case $1 in
    --bytes | --delay | --loss | --mbit | --connections | --rounds | --link | --python | \
      --before | --kept | --more)
      printf -v "${1#--}" %s "$2"
      ;;
    *) echo "net.sh: what is $1?" >&2 && exit 2 ;;
  esac
  shift 2
done

skip() {
  echo "skipped: $1"
  exit 77
}
nginx=$(command -v nginx || command -v /usr/sbin/nginx) || skip "no nginx (Debian: nginx-light)"
command -v curl >/dev/null || skip "no curl"
"$ringload" load --help | grep -q -e --connections || skip "this ringload has no component remote"

work=$(mktemp -d "${TMPDIR:-/tmp}/ringload-net-XXXXXX")
space=ringload-net-$$
inside=()
listen=127.0.0.1
host=127.0.0.1
in_space=
linked=
finish() {
  [ ! -s "$work/nginx.pid" ] || kill "$(cat "$work/nginx.pid")"
  [ -z "$linked" ] || kill "$linked"
  [ -z "$in_space" ] || ip netns del "$space"
  rm -rf "$work"
}
trap finish EXIT

by_netem() {
  ip netns add "$space" 2>/dev/null || return 1
  in_space=1
  ip link add rl0 type veth peer name rl1 netns "$space" 2>/dev/null || return 1
  ip addr add 10.213.77.1/24 dev rl0
  ip link set rl0 up
  ip -n "$space" addr add 10.213.77.2/24 dev rl1
  ip -n "$space" link set rl1 up
  tc -n "$space" qdisc add dev rl1 root netem limit 100000 delay "${delay}ms" loss "${loss}%" \
    rate "${mbit}mbit" 2>/dev/null || return 1
  inside=(ip netns exec "$space")
  listen=10.213.77.2
  host=10.213.77.2
}
by_link() {
  [ -n "$link" ] || return 1
  [ -z "$in_space" ] || ip netns del "$space"
  in_space=
  "$link" rl2 --delay-ms "$delay" --loss-percent "$loss" --mbit "$mbit" >"$work/link" 2>&1 &
  linked=$!
  for _ in $(seq 50); do
    grep -q ready "$work/link" && break
    kill -0 $linked 2>/dev/null || { linked='' && return 1; }
    sleep 0.1
  done
  listen=10.213.77.1
  host=10.213.77.2
}
if [ "$delay" != 0 ] || [ "$loss" != 0 ]; then
  [ "$(id -u)" -eq 0 ] || skip "a delay takes root"
  if by_netem; then how=netem; elif by_link; then how=tun_link; else
    skip "neither netem nor tun_link: $(cat "$work/link" 2>/dev/null)"
  fi
  echo "# $how: $delay ms, $loss % lost, $mbit Mbit/s"
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
  server {
    listen $listen:28080;
    root $work;
    location /o/m/resolve/ {
      rewrite ^/o/m/resolve/[^/]*/(.*)$ /\$1 break;
      root $work;
      add_header X-Repo-Commit 0123456789012345678901234567890123456789;
      add_header Accept-Ranges bytes;
    }
  }
}
CONF
"${inside[@]}" "$nginx" -c "$work/nginx.conf" -e "$work/error.log"
url=http://$host:28080/x.safetensors

# `connections` ranges of equal size, each by a connection of its own.
by_curl() {
  local part=$(((size + connections - 1) / connections)) i
  for ((i = 0; i < connections; ++i)); do
    [ $((i * part)) -ge "$size" ] && break
    [ "$i" -eq 0 ] || echo next
    printf 'url = "%s"\nrange = "%d-%d"\noutput = "/dev/null"\n' "$url" $((i * part)) \
      $(((i + 1) * part - 1))
  done >"$work/curl"
  curl -s --parallel --parallel-immediate --parallel-max "$connections" -K "$work/curl" 2>/dev/null
}
# Options of its own as several words.
# shellcheck disable=SC2086
by_ringload() {
  "$1" load "$2" --no-progress --anonymous --cache off --connections "$connections" \
    --route buffered $more >/dev/null
}
by_hub() {
  rm -rf "${work:?}/home"
  HF_HOME=$work/home HF_ENDPOINT=http://$host:28080 HF_HUB_DISABLE_XET=1 \
    HF_HUB_DISABLE_TELEMETRY=1 HF_HUB_DISABLE_PROGRESS_BARS=1 "$python" -c '
from huggingface_hub import hf_hub_download
print(hf_hub_download("o/m", "x.safetensors"))' >"$work/found"
  by_ringload "$ringload" "$(cat "$work/found")"
}
timed() {
  local name=$1 begin end
  shift
  begin=$(date +%s%N)
  "$@"
  end=$(date +%s%N)
  awk -v n="$name" -v b="$size" -v s=$((end - begin)) \
    'BEGIN { printf "%-12s %d bytes %.3f s %.3f GB/s\n", n, b, s / 1e9, b / s }' |
    tee -a "$work/all"
}
cat "$work/x.safetensors" >/dev/null
for ((round = 0; round < rounds; ++round)); do
  timed curl by_curl
  timed ringload by_ringload "$ringload" "$url"
  [ -z "$before" ] || timed before by_ringload "$before" "$url"
  [ -z "$python" ] || timed hub by_hub
  [ "$host" != 127.0.0.1 ] || timed page-cache by_ringload "$ringload" "$work/x.safetensors"
done
for name in curl ringload before hub page-cache; do
  awk -v n="$name" '$1 == n { print $4 }' "$work/all" | sort -n | awk -v n="$name" '{ s[NR] = $1 }
    END {
      if (!NR) exit
      printf "median %-12s %.3f s\n", n, (s[int((NR + 1) / 2)] + s[int(NR / 2) + 1]) / 2
    }'
done
[ -z "$kept" ] || "$kept" "$url" --connections "$connections" --repeat "$rounds"
