# SPDX-License-Identifier: Apache-2.0
#
# For the scripts beside it: . support.sh RINGLOAD JSON_TOOL
# Gives $ringload, $json, and $work, an empty folder that goes away with the script. It lies where
# the script is run, which is the build folder: /tmp may be no disk.

set -u
ringload=$1
json=$2
apps=$(dirname "$0")/../../apps
[ -d "$apps/ringload" ] || apps=$(dirname "$0")/../../../apps
work=$(mktemp -d "$PWD/work-XXXXXX") || exit 1
trap 'rm -rf "$work"' EXIT
trap 'exit 1' HUP INT TERM

# fits SCHEMA: whether the JSON that the last command wrote obeys the schema of that command, as
# "ringload/ls". What the schema does not have is an error.
fits() {
  "$json" validate "$apps/${1%/*}/schemas/${1#*/}.schema.json" <"$work/out" || fail "$1"
}

fail() {
  echo "failed: $*" >&2
  exit 1
}

skip() {
  echo "skipped: $*"
  exit 77
}

# expect CODE COMMAND...: runs the command into $work/out and $work/err.
expect() {
  wanted=$1
  shift
  code=0
  "$@" >"$work/out" 2>"$work/err" || code=$?
  if [ "$code" -ne "$wanted" ]; then
    cat "$work/err" >&2
    fail "exit code $code and not $wanted: $*"
  fi
}

# What came on standard error is one line, and this pattern matches it.
complains() {
  [ "$(wc -l <"$work/err")" -eq 1 ] || fail "not one line: $(cat "$work/err")"
  grep -q -e "$1" "$work/err" || fail "not '$1' but: $(cat "$work/err")"
}

silent() {
  [ ! -s "$work/err" ] || fail "not silent: $(cat "$work/err")"
}

# prints COUNT PATTERN PROCESS FILE...: waits until the files of a process have so many lines of the
# pattern.
prints() {
  count=$1
  pattern=$2
  process=$3
  shift 3
  tries=0
  until [ "$(cat "$@" | grep -c -e "$pattern")" -ge "$count" ]; do
    kill -0 "$process" 2>/dev/null || fail "the process ended: $(cat "$@" "$work"/*err)"
    tries=$((tries + 1))
    [ $tries -lt 600 ] || fail "no '$pattern': $(cat "$@" "$work"/*err)"
    sleep 0.05
  done
}

# attaches SOCKET SOURCE: the attached model has the sums of the source.
attaches() {
  "$ringload" sum "$2" >"$work/wanted" || fail "sum $2"
  expect 0 "$ringload" sum model --attach "$1"
  cmp "$work/wanted" "$work/out" || fail "the attached model differs from $2"
}

# sums_by_coreutils: reads what `ringload ls --json` prints of plain names, and prints what
# `ringload sum` should, without any code of ours.
sums_by_coreutils() {
  sed -n '/^{"name": "/ {
    s///; s/", "dtype".*"bytes": / /; s/, "file": "/ /; s/", "offset": / /; s/}.*//p
  }' |
    while read -r name bytes file offset; do
      sum=$(tail -c +$((offset + 1)) "$file" | head -c "$bytes" | sha256sum)
      echo "${sum%% *}  $name"
    done | LC_ALL=C sort -k 2
}

# Whether this machine and this file system can do it: can_load SOURCE OPTION...
can_load() {
  "$ringload" load "$@" >/dev/null 2>"$work/err"
}
