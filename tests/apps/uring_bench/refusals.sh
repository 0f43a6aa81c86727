# SPDX-License-Identifier: Apache-2.0
#
# refusals.sh URING_BENCH JSON_TOOL RINGLOAD: what cannot be done, or not honestly, is one line.

. "$(dirname "$0")/bench_support.sh"

file=$work/one.bin
head -c 3000000 /dev/urandom >"$file"

expect 1 "$bench" run "$work/absent"
complains '^uring-bench: error: .*absent: No such file or directory$'
: >"$work/empty"
expect 1 "$bench" run "$work/empty"
complains 'empty: there is not one byte'
mkdir "$work/hollow"
expect 1 "$bench" run "$work/hollow"
complains 'hollow: a folder without a file to read'
mkfifo "$work/fifo"
expect 1 "$bench" run "$work/fifo"
complains 'fifo: '
expect 1 "$bench" run /dev/null
complains '/dev/null: '

expect 2 "$bench" run "$file" --engine mmap
complains '^uring-bench: usage: --engine mmap: .*--route buffered'
expect 2 "$bench" run "$file" --block 1000
complains '^uring-bench: usage: --block'
expect 2 "$bench" run "$file" --into populated --with-fio
complains '^uring-bench: usage: --with-fio: '
for list in --blocks --bytes-in-flight; do
  expect 2 "$bench" sweep "$file" $list ''
  complains '^uring-bench: usage: an empty list leaves nothing to measure'
done
expect 2 "$bench" nonsense
complains '^uring-bench: usage: '

# More memory than there is, and pages that nobody reserved.
truncate -s 64T "$work/sparse" 2>/dev/null || truncate -s 15T "$work/sparse"
expect 1 "$bench" run "$work/sparse" --into populated --state as-is
complains 'memory: .* are needed and .* are available; --bytes reads less of the target$'
expect 1 "$bench" run "$file" --block 1G --depth 4096
complains 'memory: .* are available; smaller blocks or fewer reads in flight need less$'
if [ "$(cat /sys/kernel/mm/hugepages/hugepages-2048kB/free_hugepages 2>/dev/null)" = 0 ]; then
  expect 1 "$bench" run "$file" --pages hugetlb
  complains 'are free; as root: sysctl vm.nr_hugepages='
fi

# A file of somebody else: its state is not told, so nothing is claimed of it.
if [ "$(id -u)" -eq 0 ] && command -v setpriv >/dev/null; then
  chmod 755 "$work"
  chmod 644 "$file"
  if setpriv --reuid 65534 --clear-groups test -r "$file" &&
    setpriv --reuid 65534 --clear-groups test -x "$bench"; then
    expect 1 setpriv --reuid 65534 --clear-groups "$bench" run "$file"
    complains 'not known to be cold: cachestat is refused.*--state as-is'
    expect 0 setpriv --reuid 65534 --clear-groups "$bench" run "$file" --state as-is \
      --seconds 0.05 --json
    [ "$(measured cached_share_before)" = null ] || fail "a share was claimed"
  fi
fi

# Ctrl-C ends it in order.
head -c 200000000 /dev/zero >"$work/big"
"$bench" run "$work/big" --seconds 60 >"$work/out" 2>"$work/err" &
pid=$!
while mask=$(sed -n 's/^SigCgt:[[:space:]]*//p' "/proc/$pid/status" 2>/dev/null); do
  case $mask in *[2367abef]) break ;; esac
  sleep 0.01
done
sleep 0.1
kill -INT $pid
code=0
wait $pid || code=$?
[ "$code" -eq 130 ] || fail "exit code $code after Ctrl-C"
complains '^uring-bench: interrupted$'
