# SPDX-License-Identifier: Apache-2.0
#
# tune.sh URING_BENCH JSON_TOOL RINGLOAD: it ends in time, with limits that the loader takes.

. "$(dirname "$0")/bench_support.sh"

"$ringload" make "$work/one.safetensors" --bytes 20M --no-progress >/dev/null || fail "make"
expect 0 "$bench" tune "$work/one.safetensors" --seconds 4 --json
silent
slots=$(measured limits.slots)
bytes=$(measured limits.slot_bytes)
[ $((slots * bytes)) -le 134217728 ] || fail "more than 128 MiB pinned"
# shellcheck disable=SC2046
expect 0 "$ringload" load "$work/one.safetensors" --no-progress $(measured flags)
expect 0 "$bench" tune "$work/one.safetensors" --seconds 2
grep -q '^within.slots = ' "$work/out" || fail "no code"
grep -q '^ringload load --slots ' "$work/out" || fail "no flags"
