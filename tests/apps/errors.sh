# SPDX-License-Identifier: Apache-2.0
#
# errors.sh RINGLOAD JSON_TOOL: what goes wrong is one line and exit code 1, or 2 when it is the
# command line that is wrong.

. "$(dirname "$0")/support.sh"

"$ringload" make "$work/good.safetensors" --bytes 100000 >/dev/null || fail "make"

# fails SOURCE PATTERN: every command that takes a source says so in the same way.
fails() {
  for command in ls load sum; do
    expect 1 timeout 60 "$ringload" $command "$1"
    [ -z "$1" ] || complains '^ringload: error: [^:]*: '
    complains "$2"
    [ ! -s "$work/out" ] || fail "$command prints something all the same"
  done
}

head -c 100000 "$work/good.safetensors" >"$work/short.safetensors"
fails "$work/short.safetensors" 'short.safetensors'
(cat "$work/good.safetensors" && printf x) >"$work/long.safetensors"
fails "$work/long.safetensors" 'long.safetensors'
head -c 7 "$work/good.safetensors" >"$work/tiny.safetensors"
fails "$work/tiny.safetensors" 'tiny.safetensors'
: >"$work/empty.safetensors"
fails "$work/empty.safetensors" 'empty.safetensors'
fails "$work/missing.safetensors" 'missing.safetensors'
mkdir "$work/folder"
fails "$work/folder" 'folder'
mkfifo "$work/fifo.safetensors"
fails "$work/fifo.safetensors" 'fifo.safetensors'
fails /dev/null 'null'
fails '' '^ringload: error: the name of the checkpoint is empty$'
# A line's end in a name stays one line.
fails "$work/no
such" 'no'
if [ "$(id -u)" -ne 0 ]; then
  cp "$work/good.safetensors" "$work/locked.safetensors"
  chmod 0 "$work/locked.safetensors"
  fails "$work/locked.safetensors" 'ermission'
fi

# An address where no connection is opened: the message has no name of the C++ interface.
expect 1 "$ringload" ls http://127.0.0.1:9/model.safetensors
complains 'http://127.0.0.1:9/model.safetensors: '
! grep '_options::' "$work/err" || fail "a name of the C++ interface"

# A number that no option takes: the message has the range.
for number in 18446744073709551616 4294967296 -1 1.5 x; do
  expect 2 "$ringload" load "$work/good.safetensors" --slots=$number
  complains "'$number' is invalid, expected a whole number from 0 to 4,294,967,295"
done

# A shard that is missing.
"$ringload" make "$work/sharded" --bytes 1M --shards 3 >/dev/null
rm "$work/sharded/model-00002-of-00003.safetensors"
fails "$work/sharded" '00002'

# Few descriptors: at each number of them it works, or says which limit is reached.
for command in load sum; do
  for limit in $(seq 6 30); do
    code=0
    (ulimit -n "$limit" && exec "$ringload" $command "$work/good.safetensors") \
      >"$work/out" 2>"$work/err" || code=$?
    [ "$code" -ne 127 ] || continue # Not even its libraries can be opened.
    [ "$code" -eq 0 ] && continue
    complains '^ringload: error: .*Too many open files: .*ulimit -n'
  done
  [ "$code" -eq 0 ] || fail "ulimit -n 30 is not enough for $command"
done
# A soft limit below the number of shards is raised.
expect 0 "$ringload" make "$work/shards" --bytes 100000 --tensors 100 --shards 100
if [ "$(ulimit -H -n)" = unlimited ] || [ "$(ulimit -H -n)" -ge 1024 ]; then
  (ulimit -S -n 64 && expect 0 "$ringload" load "$work/shards" --json) || exit 1
fi

# A soft limit is no limit: the tool raises it to the hard limit.
"$ringload" make "$work/many" --bytes 1M --shards 16 >/dev/null
(ulimit -S -n 24 && exec "$ringload" load "$work/many") >"$work/out" 2>"$work/err" ||
  fail "16 shards with a soft limit of 24 open files: $(cat "$work/err")"

# Few threads: the same. Root has no such limit, and another user may not be let into this folder.
for limit in $(seq 1 16); do
  command -v setpriv >/dev/null && command -v bash >/dev/null && [ "$(id -u)" -eq 0 ] || break
  chmod 755 "$work"
  for command in load sum; do
    code=0
    setpriv --reuid 54321 --regid 54321 --clear-groups \
      bash -c 'ulimit -u "$0" && exec timeout 60 "$@"' \
      "$limit" "$ringload" $command "$work/good.safetensors" >"$work/out" 2>"$work/err" || code=$?
    grep -q -e ermission -e 'fork' "$work/err" && continue
    [ "$code" -eq 0 ] || complains '^ringload: error: .*thread could not be started: .*ulimit -u'
  done
done

# Little address space: the same, and it is not called a limit of threads.
for limit in 60000 80000 120000 160000 200000 300000; do
  code=0
  (ulimit -v "$limit" && exec timeout 60 "$ringload" load "$work/good.safetensors") \
    >"$work/out" 2>"$work/err" || code=$?
  [ "$code" -ne 124 ] || fail "load hangs with ulimit -v $limit"
  [ "$code" -ne 1 ] || complains '^ringload: error: '
  ! grep -q -e 'ulimit -u' "$work/err" || complains 'ulimit -v'
done

# What the library refuses.
for options in '--slots 1025' '--slot-bytes 3M' '--slot-bytes 1K' '--copy-threads 65' \
  '--reader-threads 65' '--device cuda:1023'; do
  # shellcheck disable=SC2086
  expect 1 "$ringload" load "$work/good.safetensors" $options
  refused="the value is .*, expected\|this ringload was built without CUDA"
  complains "^ringload: error: ${options%% *}.*: \($refused\)\|^ringload: error: cuda"
done

# What the command line refuses.
for words in '' 'lsd' 'ls' 'load --slots x' "load $work/good.safetensors --engine uring" \
  "ls $work/good.safetensors --nonsense" "make $work/x" "make $work/x --bytes 1Q" \
  "make $work/x --bytes 10 --tensors 2 --shards 3" "make $work/x --bytes 10 --tensors 0" \
  "make $work/x --bytes 10 --shape llama" "make $work/x --bytes 10 --shards 0" \
  "ls $work/good.safetensors --select" "ls $work/good.safetensors --slice w[" \
  "load $work/good.safetensors --slice w[0:1:2]" "sum $work/good.safetensors --shard w --rank 0/2" \
  "ls $work/good.safetensors --shard w:0" "load $work/good.safetensors --experts" \
  "load $work/good.safetensors --rank 0/2" "load $work/good.safetensors --rank 2/2 --experts" \
  "sum $work/good.safetensors --select w --checksums $work/x" \
  "ls $work/good.safetensors $work --independent-files"; do
  # shellcheck disable=SC2086
  expect 2 "$ringload" $words
  complains '^ringload: usage: '
done
[ ! -e "$work/x" ] || fail "a wrong command line makes a file"

# A file that a command writes beside its result replaces neither what it reads nor its result.
cp "$work/good.safetensors" "$work/same.safetensors"
ln -s same.safetensors "$work/linked.safetensors"
mkdir "$work/model"
cp "$work/good.safetensors" "$work/model/model.safetensors"
for words in "sum $work/same.safetensors --checksums $work/same.safetensors" \
  "sum $work/linked.safetensors --checksums $work/same.safetensors" \
  "sum $work/model --checksums $work/model/model.safetensors" \
  "load $work/same.safetensors --trace $work/same.safetensors" \
  "load $work/same.safetensors --allocation-log $work/same.safetensors" \
  "load $work/same.safetensors --trace $work/both --allocation-log $work/./both" \
  "convert $work/same.safetensors $work/x --checksums $work/same.safetensors" \
  "convert $work/same.safetensors $work/x.zt --checksums $work/x.zt"; do
  # shellcheck disable=SC2086
  expect 1 "$ringload" $words
  complains '^ringload: error: .*: --[a-z-]* would replace '
  cmp -s "$work/good.safetensors" "$work/same.safetensors" || fail "replaced by $words"
done
cmp -s "$work/good.safetensors" "$work/model/model.safetensors" || fail "a file of a folder"
# Nor does it replace a file of the checkpoint that has another ending or is in another folder: a
# shard in a subfolder, an index, external data, a version.
"$ringload" make "$work/parts" --bytes 1M --shards 2 >/dev/null
mkdir "$work/parts/sub"
mv "$work/parts/model-00002-of-00002.safetensors" "$work/parts/sub/"
sed -i 's|"model-00002|"sub/model-00002|' "$work/parts/model.safetensors.index.json"
cp "$(dirname "$0")"/../data/onnx/external.onnx* "$work/"
mkdir "$work/versions"
cp "$work/good.safetensors" "$work/versions/v0.safetensors"
"$ringload" make "$work/next.safetensors" --bytes 100000 --seed 2 >/dev/null
"$ringload" delta "$work/versions/v0.safetensors" "$work/next.safetensors" \
  -o "$work/versions/v1.delta.zt" >/dev/null || fail "delta"
find "$work/parts" "$work/versions" "$work/external.onnx.data" -type f -exec sha256sum {} + \
  >"$work/sums"
for words in "sum $work/parts --checksums $work/parts/sub/model-00002-of-00002.safetensors" \
  "sum $work/parts --checksums $work/parts/model.safetensors.index.json" \
  "load $work/parts --trace $work/parts/sub/model-00002-of-00002.safetensors" \
  "sum $work/external.onnx --checksums $work/external.onnx.data" \
  "load $work/external.onnx --allocation-log $work/external.onnx.data" \
  "load $work/versions --allocation-log $work/versions/v1.delta.zt"; do
  # shellcheck disable=SC2086
  expect 1 "$ringload" $words
  complains '^ringload: error: .*: --[a-z-]* would replace a file of the checkpoint$'
done
sha256sum --quiet -c "$work/sums" || fail "a file of a checkpoint is replaced"
for _ in 1 2; do
  expect 0 "$ringload" load "$work/parts" --no-progress --trace "$work/parts/trace.json"
done

for file in x x.zt both; do
  [ ! -e "$work/$file" ] || fail "a refused command writes $file"
done
for _ in 1 2; do
  expect 0 "$ringload" sum "$work/model" --checksums "$work/model/SHA256SUMS"
  expect 0 "$ringload" load "$work/model" --trace "$work/model/trace.json"
done
echo '{}' >"$work/model/config.json"
expect 1 "$ringload" load "$work/model" --trace "$work/model/config.json"
complains '--trace would replace a file of the checkpoint'

expect 0 "$ringload" --version
expect 0 "$ringload" --help
for command in ls load sum keep verify; do
  expect 0 "$ringload" $command --help
  for format in safetensors GGUF NumPy PyTorch ONNX zTensor HDF5; do
    grep -q -w "$format" "$work/out" || fail "$command --help does not name $format"
  done
done
expect 0 "$ringload" sum --help
