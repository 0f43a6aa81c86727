# SPDX-License-Identifier: Apache-2.0
#
# little_memory.sh RINGLOAD: a limit on memory, as a container has one. A load that fits goes on.
# One that does not is refused, or killed by the kernel; it never hangs, nor prints half a result.

. "$(dirname "$0")/support.sh"
"$ringload" make "$work/m.safetensors" --bytes 300M --no-progress >/dev/null || fail "make"

# Of addresses: the system then says no, and so do we.
code=0
(
  ulimit -v 250000
  exec timeout 120 "$ringload" load "$work/m.safetensors"
) >"$work/out" 2>"$work/err" || code=$?
[ "$code" -eq 1 ] || fail "exit code $code at the limit on addresses: $(cat "$work/err")"
complains '^ringload: error: '
[ ! -s "$work/out" ] || fail "it prints all the same"

need_root
group=/sys/fs/cgroup/ringload-test-$$
attempt "no cgroup" mkdir "$group"
undo="rmdir $group"
[ -e "$group/memory.max" ] || skip "no memory controller here; the limit on addresses passed"

# in_group BYTES COMMAND...
in_group() {
  echo "$1" >"$group/memory.max" || skip "no limit can be set"
  shift
  code=0
  sh -c 'echo $$ >"$1/cgroup.procs" && shift && exec timeout 120 "$@"' sh "$group" "$@" \
    >"$work/out" 2>"$work/err" || code=$?
}
in_group 600M "$ringload" load "$work/m.safetensors" --json
[ "$code" -eq 0 ] || fail "exit code $code with memory enough: $(cat "$work/err")"
in_group 100M "$ringload" load "$work/m.safetensors" --json
case $code in
  1) complains '^ringload: error: ' ;;
  137) ;;
  *) fail "exit code $code with too little memory" ;;
esac
[ ! -s "$work/out" ] || fail "it prints all the same"
