# SPDX-License-Identifier: Apache-2.0
#
# For the scripts beside it: . support.sh RINGLOAD
# Each makes a fault that is none of ours: a disk, a limit, a file system. What this machine does
# not let it make is reported as "skipped: why", with exit code 77.

set -u
ringload=$1
work=$(mktemp -d "$PWD/faults-XXXXXX") || exit 1
undo=:
end() {
  eval "$undo" >/dev/null 2>&1
  rm -rf "$work"
}
trap end EXIT
trap 'exit 1' HUP INT TERM

fail() {
  echo "failed: $*" >&2
  exit 1
}

skip() {
  echo "skipped: $*"
  exit 77
}

need_root() {
  [ "$(id -u)" -eq 0 ] || skip "only root may do this"
}

need() {
  for tool in "$@"; do
    command -v "$tool" >/dev/null || skip "there is no $tool here"
  done
}

# attempt WHY COMMAND...: skips if the command fails.
attempt() {
  why=$1
  shift
  "$@" >"$work/attempt" 2>&1 || skip "$why: $(tail -n 1 "$work/attempt")"
}

# expect CODE COMMAND...: runs the command into $work/out and $work/err; a hang is a failure.
expect() {
  wanted=$1
  shift
  code=0
  timeout 120 "$@" >"$work/out" 2>"$work/err" || code=$?
  [ "$code" -eq "$wanted" ] || fail "exit code $code and not $wanted: $*: $(cat "$work/err")"
}

# What came on standard error is one line, and this pattern matches it.
complains() {
  [ "$(wc -l <"$work/err")" -eq 1 ] || fail "not one line: $(cat "$work/err")"
  grep -q -e "$1" "$work/err" || fail "not '$1' but: $(cat "$work/err")"
}

# Makes a control group for memory, version 1 or 2, as $group. It is removed at the end.
make_memory_group() {
  need_root
  if [ -d /sys/fs/cgroup/memory ]; then
    group=/sys/fs/cgroup/memory/ringload-test-$$
    limit_file=memory.limit_in_bytes
  else
    group=/sys/fs/cgroup/ringload-test-$$
    limit_file=memory.max
  fi
  attempt "no control group can be made" mkdir "$group"
  undo="rmdir $group"
  [ -e "$group/$limit_file" ] || skip "there is no memory controller here"
}

# in_group MIB COMMAND...: runs it in the group with that limit, into $work/out, $work/err, $code.
in_group() {
  # The pages that an earlier command left in the page cache are none of this one's.
  [ ! -e "$group/memory.force_empty" ] || echo 0 >"$group/memory.force_empty" 2>/dev/null
  echo $(($1 * 1048576)) >"$group/$limit_file" || skip "no limit can be set"
  shift
  code=0
  sh -c 'echo $$ >"$1/cgroup.procs" && shift && exec timeout 120 "$@"' sh "$group" "$@" \
    >"$work/out" 2>"$work/err" || code=$?
}
