# SPDX-License-Identifier: Apache-2.0
#
# For the scripts beside it: . bench_support.sh URING_BENCH JSON_TOOL RINGLOAD
# Gives $bench, and all that ../support.sh gives.

bench=$1
set -- "$3" "$2"
. "$(dirname "$0")/../support.sh"

# measured FIELD: of the JSON that the last command wrote.
measured() {
  "$json" get "$1" <"$work/out"
}

# Whether the state of the page cache can be known and direct reads be made here.
"$bench" run "$0" --block 4K --depth 1 --seconds 0.01 >/dev/null 2>"$work/err" ||
  skip "$(cat "$work/err")"
