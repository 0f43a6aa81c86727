# SPDX-License-Identifier: Apache-2.0
#
# tune.sh URING_BENCH JSON_TOOL RINGLOAD: it ends in time, with limits that the loader takes.

. "$(dirname "$0")/bench_support.sh"

"$ringload" make "$work/one.safetensors" --bytes 20M --no-progress >/dev/null || fail "make"
expect 0 "$bench" tune "$work/one.safetensors" --seconds 4 --json
fits uring-bench/tune
silent
slots=$(measured limits.slots)
bytes=$(measured limits.slot_bytes)
[ $((slots * bytes)) -le 134217728 ] || fail "more than 128 MiB pinned"
flags=$(measured flags) || fail "no flags"
# shellcheck disable=SC2086
expect 0 "$ringload" load "$work/one.safetensors" --no-progress $flags
# shellcheck disable=SC2086
expect 0 "$bench" stages "$work/one.safetensors" --runs 1 --json $flags
[ "$(measured limits.slots)" -eq "$slots" ] || fail "stages have $(measured limits.slots) slots"
expect 0 "$bench" tune "$work/one.safetensors" --seconds 2
grep -q '^options.slots = ' "$work/out" || fail "no code"
grep -q '^ringload load --slots ' "$work/out" || fail "no flags"

expect 2 "$bench" tune "$work/one.safetensors" --seconds 0.001
complains 'expected a number of seconds from 1 to 86,400'

# no_loads WORDS: tune ended well, and said that there is no loader's part, and why. Where the drive
# gains nothing there is nothing for the loader to confirm.
no_loads() {
  silent
  measured loader_gain >/dev/null 2>&1 && fail "a loader's part"
  [ -n "$(measured gb_per_s)" ] || fail "no drive's part"
  why=$(measured no_loads_reason) || fail "it does not say why there is no loader's part"
  wanted=$1
  if [ "$(measured defaults_kept)" = true ]; then wanted='the drive gains nothing'; fi
  case $why in *"$wanted"*) ;; *) fail "not '$wanted' but: $why" ;; esac
}

# sparse FILE BYTES: a checkpoint of one tensor that takes no place on the disk.
sparse() {
  header="{\"a\":{\"dtype\":\"U8\",\"shape\":[$2],\"data_offsets\":[0,$2]}}"
  length=$(printf %s "$header" | wc -c)
  # shellcheck disable=SC2059
  printf "\\$(printf %03o "$length")\\0\\0\\0\\0\\0\\0\\0%s" "$header" >"$1"
  truncate -s $((8 + length + $2)) "$1"
}

# What is no checkpoint, and one whose loads would take longer than there is time.
head -c 20000000 /dev/urandom >"$work/plain"
expect 0 "$bench" tune "$work/plain" --seconds 2
grep -q '^no whole loads: ' "$work/out" || fail "text: no reason"
sparse "$work/large.safetensors" 8000000000000
expect 0 timeout 60 "$bench" tune "$work/large.safetensors" --seconds 2 --json
no_loads 'two would take '

# One that is larger than the memory, where we may say how much there is.
sparse "$work/some.safetensors" 300000000
sed 's/^MemAvailable:.*/MemAvailable:     200000 kB/' /proc/meminfo >"$work/meminfo"
code=0
unshare --mount --map-root-user sh -c '
  mount --bind "$2" /proc/meminfo || exit 99
  exec "$1" tune "$3" --seconds 8 --json' \
  sh "$bench" "$work/meminfo" "$work/some.safetensors" >"$work/out" 2>"$work/err" || code=$?
case $code in
  0) no_loads 'the host has 204,800,000 available' ;;
  99 | 127) echo "not checked: little memory" ;;
  *)
    grep -q '^unshare' "$work/err" || fail "exit code $code with little memory: $(cat "$work/err")"
    echo "not checked: little memory"
    ;;
esac
