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

make_memory_group
in_group 600 "$ringload" load "$work/m.safetensors" --json
[ "$code" -eq 0 ] || fail "exit code $code with memory enough: $(cat "$work/err")"
in_group 100 "$ringload" load "$work/m.safetensors" --json
case $code in
  1) complains '^ringload: error: ' ;;
  137) ;;
  *) fail "exit code $code with too little memory" ;;
esac
[ ! -s "$work/out" ] || fail "it prints all the same"
