# SPDX-License-Identifier: Apache-2.0
#
# interrupt.sh RINGLOAD JSON_TOOL: Ctrl-C ends a command in order: exit code 130, nothing printed,
# no file left.

. "$(dirname "$0")/support.sh"

[ -r /proc/self/status ] || skip "no /proc, so no way to know when the tool is ready for a signal"
[ "$(df -Pk "$work" | awk 'NR == 2 {print $4}')" -gt 6000000 ] || skip "less than 6 GB of disk"

# Waits until process $1 catches SIGINT: bit 1 of the mask. Fails when it has ended before.
until_ready() {
  while :; do
    mask=$(sed -n 's/^SigCgt:[[:space:]]*//p' "/proc/$1/status" 2>/dev/null)
    case $mask in
      '') return 1 ;;
      *[2367abef]) return 0 ;;
    esac
    sleep 0.01
  done
}

# interrupted SIGNAL CODE COMMAND...: starts it, sends the signal when it is ready, and wants that
# exit code. A fast machine may be done before the signal comes, so there is more than one try.
interrupted() {
  signal=$1
  wanted=$2
  shift 2
  for try in 1 2 3 4 5 6; do
    "$ringload" "$@" >"$work/out" 2>"$work/err" &
    pid=$!
    if until_ready $pid; then
      # In the first tries it is well on its way, in the last it has just begun.
      case $try in 1 | 2) sleep 0.1 ;; 3 | 4) sleep 0.02 ;; esac
      kill -s "$signal" $pid 2>/dev/null
    fi
    code=0
    wait $pid || code=$?
    [ "$code" -eq 0 ] || break
    rm -rf "$work/in" && mkdir "$work/in"
  done
  [ "$code" -ne 0 ] || skip "the tool was done before the signal came"
  [ "$code" -eq "$wanted" ] || fail "exit code $code and not $wanted: $*: $(cat "$work/err")"
  [ ! -s "$work/out" ] || fail "prints something all the same: $*"
  complains '^ringload: interrupted$'
}

mkdir "$work/in"
interrupted INT 130 make "$work/in/one.safetensors" --bytes 2G
[ -z "$(ls -A "$work/in")" ] || fail "make leaves $(ls -A "$work/in")"
interrupted INT 130 make "$work/in/sharded" --bytes 2G --shards 3
[ -z "$(ls -A "$work/in")" ] || fail "make leaves $(ls -A "$work/in")"
interrupted TERM 143 make "$work/in/sharded" --bytes 2G --shards 3
[ -z "$(ls -A "$work/in")" ] || fail "make leaves $(ls -A "$work/in")"

"$ringload" make "$work/big.safetensors" --bytes 512M >/dev/null || fail "make"
slow='--slots 1 --slot-bytes 64K --bytes-in-flight 64K'
for engine in auto threads; do
  # shellcheck disable=SC2086
  interrupted INT 130 load "$work/big.safetensors" --engine $engine --reader-threads 1 $slow
  # shellcheck disable=SC2086
  interrupted INT 130 sum "$work/big.safetensors" --engine $engine --reader-threads 1 $slow
  # shellcheck disable=SC2086
  interrupted INT 130 sum "$work/big.safetensors" --engine $engine --reader-threads 1 $slow \
    --checksums "$work/in/big.sums"
  [ -z "$(ls -A "$work/in")" ] || fail "sum leaves $(ls -A "$work/in")"
done
# shellcheck disable=SC2086
interrupted TERM 143 load "$work/big.safetensors" $slow
