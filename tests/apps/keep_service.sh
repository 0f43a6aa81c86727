# SPDX-License-Identifier: Apache-2.0
#
# keep_service.sh RINGLOAD JSON_TOOL SERVICE_TOOL HAS_REMOTE: a keeper as a service: it takes its
# socket, says when it is ready, loads again on SIGHUP, and has metrics. HAS_REMOTE is 1 if RINGLOAD
# contains ringload_remote, and 0 if it does not.

. "$(dirname "$0")/support.sh"
tool=$3
has_remote=$4
sockets=$(mktemp -d /tmp/ringload-service-XXXXXX) # A socket's path is short.
socket=$sockets/model.sock
notify=$sockets/notify
manager=
others=
trap 'for each in $manager $others; do kill $each 2>/dev/null; done; rm -rf "$work" "$sockets"' EXIT

"$ringload" make "$work/one.safetensors" --bytes 3M --seed 1 >/dev/null || fail "make"
"$ringload" make "$work/two.safetensors" --bytes 2M --seed 2 >/dev/null || fail "make"
cp "$work/one.safetensors" "$work/model.safetensors"

"$tool" run "$socket" "$notify" "$ringload" keep "model=$work/model.safetensors" \
  --metrics 127.0.0.1:0 --no-progress >"$work/told" 2>"$work/told_err" </dev/null &
manager=$!
until [ -S "$socket" ]; do
  kill -0 $manager 2>/dev/null || fail "there is no socket: $(cat "$work/told_err")"
  sleep 0.02
done

# told COUNT LINE: waits until the service has said the line so many times.
told() {
  prints "$1" "^$2" $manager "$work/told"
}
# metric LINE: the metrics have it.
metric() {
  "$tool" get "$url" | tr -d '\r' >"$work/metrics" || fail "no metrics"
  grep -qx "$1" "$work/metrics" || fail "no '$1' in: $(cat "$work/metrics")"
}

# Begun before the models are loaded: it waits for them.
"$ringload" sum "$work/one.safetensors" >"$work/wanted" || fail "sum"
expect 0 "$ringload" sum model --attach "$socket"
cmp "$work/wanted" "$work/out" || fail "what was attached first differs"
told 1 'READY=1'
told 1 'STATUS=serving 1 models, '
service=$(sed -n 's/^pid //p' "$work/told")
url=$(sed -n 's/^metrics: //p' "$work/told")
attaches "$socket" "$work/one.safetensors"
metric 'HTTP/1.1 200 OK'
metric 'Content-Type: text/plain; version=0.0.4; charset=utf-8'
metric 'ringload_keeper_models 1'
metric 'ringload_keeper_model_version{model="model"} 1'
metric 'ringload_keeper_reloads_total 0'
metric 'ringload_loader_info{loader="",engine="[a-z]*",reason=".*"} 1'
samples=$(grep -c '^ringload_' "$work/metrics")
[ "$(grep -c '^# TYPE' "$work/metrics")" -eq "$samples" ] || fail "metrics without a type"
"$tool" get-absolute "$url" | grep -q '^ringload_keeper_models 1' || fail "an absolute target"
url=${url%/metrics}/ready
metric 'HTTP/1.1 200 OK'
url=${url%/ready}/other
metric 'HTTP/1.1 404 Not Found'
url=${url%/other}/metrics

cp "$work/two.safetensors" "$work/new" && mv "$work/new" "$work/model.safetensors"
kill -HUP "$service"
told 1 'RELOADING=1'
told 1 'MONOTONIC_USEC=[0-9][0-9]*$'
told 2 'READY=1'
attaches "$socket" "$work/two.safetensors"
metric 'ringload_keeper_model_version{model="model"} 2'
metric 'ringload_keeper_reloads_total 1'

# What cannot be loaded again stays published.
echo damaged >"$work/new" && mv "$work/new" "$work/model.safetensors"
kill -HUP "$service"
told 1 'STATUS=reload failed: '
told 3 'READY=1'
attaches "$socket" "$work/two.safetensors"
metric 'ringload_keeper_reload_failures_total 1'

# The keeper continues without its service manager, and reports this.
mv "$notify" "$notify.moved"
cp "$work/one.safetensors" "$work/new" && mv "$work/new" "$work/model.safetensors"
kill -HUP "$service"
prints 2 'error: NOTIFY_SOCKET' $manager "$work/told_err"
attaches "$socket" "$work/one.safetensors"
metric 'ringload_keeper_reloads_total 2'
mv "$notify.moved" "$notify"

kill -TERM "$service"
wait $manager
code=$?
manager=
[ $code -eq 143 ] || fail "the service ends with $code and not 143"
grep -qx 'STOPPING=1' "$work/told" || fail "no STOPPING=1"
[ -S "$socket" ] || fail "the manager's socket was removed"
rm "$socket" "$notify"

# Sockets that are no place to attach.
expect 1 "$tool" run - "$notify" "$ringload" keep "$work/one.safetensors" </dev/null
complains 'expected a listening Unix socket of type SOCK_SEQPACKET'
rm "$notify"
expect 1 "$tool" run "$socket" "$notify" "$ringload" keep "$work/one.safetensors" --socket x
complains '^ringload: error: --socket: the service manager passes a socket already'
rm "$notify"
expect 1 "$ringload" keep "$work/one.safetensors"
complains '^ringload: error: --socket: --socket is missing, and the service manager'
expect 1 "$ringload" keep "$work/one.safetensors" --socket "$sockets/x" --metrics localhost
complains '^ringload: error: --metrics: expected an address'
NOTIFY_SOCKET=relative expect 1 "$ringload" keep "$work/one.safetensors" --socket "$sockets/y"
complains 'NOTIFY_SOCKET'
LISTEN_PID=x expect 1 "$ringload" keep "$work/one.safetensors" --socket "$sockets/z"
complains 'LISTEN_PID'

# The reader of standard output ends. The keeper reports this once, and continues to serve.
cp "$work/one.safetensors" "$work/model.safetensors"
mkfifo "$work/pipe"
"$ringload" keep "model=$work/model.safetensors" --socket "$socket" --no-progress \
  >"$work/pipe" 2>"$work/piped_err" </dev/null &
others=$!
head -n 1 "$work/pipe" >/dev/null
for source in two one; do
  cp "$work/$source.safetensors" "$work/new" && mv "$work/new" "$work/model.safetensors"
  kill -HUP $others
  prints 1 'error: standard output: Broken pipe' $others "$work/piped_err"
  "$ringload" sum "$work/$source.safetensors" >"$work/wanted" || fail "sum"
  tries=0
  until "$ringload" sum model --attach "$socket" | cmp -s "$work/wanted" -; do
    tries=$((tries + 1))
    [ $tries -lt 200 ] || fail "version $source is not served: $(cat "$work/piped_err")"
    sleep 0.05
  done
done
kill -TERM $others
wait $others
code=$?
others=
[ $code -eq 143 ] || fail "the keeper without a reader ends with $code and not 143"
[ "$(grep -c 'standard output' "$work/piped_err")" -eq 1 ] || fail "$(cat "$work/piped_err")"

# A signal ends a keeper that waits for the listing of a store. The service manager is notified.
[ "$has_remote" -eq 1 ] || exit 0
rm -f "$socket" "$notify"
: >"$work/told"
: >"$work/hang"
"$tool" hang >"$work/hang" 2>"$work/hang_err" &
hanging=$!
others=$hanging
prints 1 '^[0-9][0-9]*$' $hanging "$work/hang"
env -u HF_HUB_OFFLINE NO_PROXY=127.0.0.1 "$tool" run "$socket" "$notify" \
  "$ringload" keep --follow model=s3://bucket/run \
  --endpoint "http://127.0.0.1:$(head -n 1 "$work/hang")" --anonymous \
  >"$work/told" 2>"$work/err" </dev/null &
manager=$!
told 1 'pid '
service=$(sed -n 's/^pid //p' "$work/told")
others="$hanging $service"
prints 1 '^connection$' $manager "$work/hang"
kill -TERM "$service"
wait $manager
code=$?
manager=
others=$hanging
[ $code -eq 143 ] || fail "keep ends with $code and not 143: $(cat "$work/err")"
complains '^ringload: interrupted$'
grep -qx 'STOPPING=1' "$work/told" || fail "no STOPPING=1: $(cat "$work/told")"
