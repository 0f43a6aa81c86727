# SPDX-License-Identifier: Apache-2.0
#
# For the scripts beside it: . servers.sh RINGLOAD JSON_TOOL
# What tests/apps/support.sh gives; $python, of a virtual environment with the packages that
# `packages NAME...` was called for; and servers that end with the script.

. "$(dirname "$0")/../apps/support.sh" "$1" "$2"

servers=
trap 'stop_servers; rm -rf "$work"' EXIT

stop_servers() {
  # shellcheck disable=SC2086
  [ -z "$servers" ] || kill $servers 2>/dev/null
  servers=
}

# Of this script nothing is to be seen by what the person who runs it has set.
set_by_others='HF_[A-Z_]*|AWS_[A-Z_0-9]*|[a-z]*_proxy|[A-Z]*_PROXY'
for variable in $(env | sed -E -n "s/^($set_by_others)=.*/\1/p"); do
  unset "$variable"
done
unset HUGGING_FACE_HUB_TOKEN HUGGINGFACE_HUB_CACHE XDG_CACHE_HOME TRANSFORMERS_OFFLINE
export HOME="$work/home" HF_HUB_DISABLE_XET=1 HF_HUB_DISABLE_TELEMETRY=1
mkdir -p "$HOME"

# packages NAME...: installs from PyPI into a virtual environment beside the test, once.
packages() {
  command -v python3 >/dev/null || skip "no python3"
  python3 -c 'import ensurepip, venv' 2>/dev/null || skip "no venv (Debian: python3-venv)"
  (
    flock 9
    [ -x venv/bin/python ] || python3 -m venv venv || exit 1
    for name in "$@"; do
      installed="venv/$(echo "$name" | tr -c 'a-zA-Z0-9\n' '_').installed"
      [ -e "$installed" ] && continue
      venv/bin/python -m pip --disable-pip-version-check -q install "$name" >"$work/pip" 2>&1 ||
        exit 1
      touch "$installed"
    done
  ) 9>venv.lock || skip "the packages cannot be had: $*"
  python=$PWD/venv/bin/python
}

# started NAME FILE PATTERN: waits until the server has written a line that matches, whose first
# group is printed.
started() {
  tries=0
  until address=$(sed -n "s|.*$3.*|\1|p" "$2" | head -n 1) && [ -n "$address" ]; do
    tries=$((tries + 1))
    [ $tries -lt 300 ] || fail "$1 does not start: $(cat "$2")"
    sleep 0.1
  done
  echo "$address"
}

# require_nginx: sets $nginx. Skips the test without nginx or openssl.
require_nginx() {
  nginx=$(command -v nginx || command -v /usr/sbin/nginx) || skip "no nginx (Debian: nginx-light)"
  command -v openssl >/dev/null || skip "no openssl"
}

# make_certificate: a certificate for 127.0.0.1 and localhost, which signs itself: $work/cert.pem.
make_certificate() {
  openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 \
    -keyout "$work/key.pem" -out "$work/cert.pem" -subj /CN=localhost \
    -addext subjectAltName=DNS:localhost,IP:127.0.0.1 2>"$work/openssl" ||
    fail "$(cat "$work/openssl")"
}

# write_nginx_conf: writes $work/nginx.conf with the standard input as the servers. The workers of
# nginx run as the user of this script, whose files they read.
write_nginx_conf() {
  nginx_servers=$(cat)
  nginx_user=
  [ "$(id -u)" -ne 0 ] || nginx_user="user root;"
  cat >"$work/nginx.conf" <<CONF
daemon off;
$nginx_user
pid $work/nginx.pid;
error_log $work/error.log;
worker_processes 1;
events { worker_connections 256; }
http {
  access_log off;
  client_body_temp_path $work/tmp;
  proxy_temp_path $work/tmp;
  fastcgi_temp_path $work/tmp;
  uwsgi_temp_path $work/tmp;
  scgi_temp_path $work/tmp;
$nginx_servers
}
CONF
}

# same SOURCE FILE OPTION...: the digests are those of the file. $quick has options for the source.
same() {
  source=$1
  file=$2
  shift 2
  # shellcheck disable=SC2086
  expect 0 "$ringload" sum "$source" $quick "$@"
  silent
  mv "$work/out" "$work/found"
  expect 0 "$ringload" sum "$file" --no-progress
  cmp -s "$work/out" "$work/found" || fail "other digests: $source $*"
}
