# SPDX-License-Identifier: Apache-2.0
#
# valgrind.sh RINGLOAD JSON_TOOL: the tool under valgrind, for small loads of each kind. It knows
# io_uring's calls but not what the kernel writes behind them, so the ring's reads count as unset:
# what is compared is read by threads.

. "$(dirname "$0")/support.sh"
command -v valgrind >/dev/null || skip "there is no valgrind here"

"$ringload" make "$work/m" --bytes 1M --shards 2 --order name >/dev/null || fail "make"
"$ringload" sum "$work/m" --checksums "$work/sums" || fail "sum"
checked() {
  expect 0 valgrind -q --error-exitcode=99 --leak-check=full --errors-for-leak-kinds=definite \
    "$ringload" "$@" --no-progress
}
checked load "$work/m" --engine threads
checked load "$work/m" --engine threads --route buffered --verify "$work/sums"
checked load "$work/m"
checked sum "$work/m" --engine threads
echo "valgrind: passed"
