# SPDX-License-Identifier: Apache-2.0
#
# output.sh RINGLOAD JSON_TOOL: standard output that is full, gone or closed.

. "$(dirname "$0")/support.sh"

"$ringload" make "$work/many.safetensors" --bytes 400000 --tensors 20000 >/dev/null || fail "make"
"$ringload" sum "$work/many.safetensors" --checksums "$work/sums" || fail "sum --checksums"

# run COMMAND...: with standard output as the caller set it.
run() {
  code=0
  "$ringload" "$@" 2>"$work/err" || code=$?
}

for words in '--help' '--version' "ls $work/many.safetensors" "ls $work/many.safetensors --json" \
  "load $work/many.safetensors" "load $work/many.safetensors --json" \
  "sum $work/many.safetensors" "sum $work/many.safetensors --json" \
  "verify $work/many.safetensors --checksums $work/sums" \
  "verify $work/many.safetensors --checksums $work/sums --json"; do
  # shellcheck disable=SC2086
  run $words >/dev/full
  [ "$code" -eq 1 ] || fail "/dev/full: exit code $code: $words"
  complains '^ringload: error: standard output: No space left on device'

  # shellcheck disable=SC2086
  run $words >&-
  [ "$code" -eq 1 ] || fail "closed: exit code $code: $words"
  complains '^ringload: error: standard output: '
done

# A reader that has seen enough: more is written than a pipe holds.
for words in "ls $work/many.safetensors" "sum $work/many.safetensors"; do
  # shellcheck disable=SC2086
  (
    run $words
    echo "$code" >"$work/code"
  ) | head -n 1 >/dev/null
  [ "$(cat "$work/code")" -eq 1 ] || fail "gone: exit code $(cat "$work/code"): $words"
  silent
done

# With all three closed, what is printed must not end up in the file that is made.
"$ringload" make "$work/closed.safetensors" --bytes 1000 <&- >&- 2>&-
[ $? -eq 1 ] || fail "make with nothing open"
expect 0 "$ringload" ls "$work/closed.safetensors"
