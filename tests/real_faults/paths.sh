# SPDX-License-Identifier: Apache-2.0
#
# paths.sh RINGLOAD: names from inside a model that lead elsewhere, and files that are none. Each is
# refused in one line, and nothing blocks.

. "$(dirname "$0")/support.sh"
"$ringload" make "$work/secret.safetensors" --bytes 1K --tensors 1 >/dev/null || fail "make"

# refused PATTERN SOURCE: by each command that takes a source.
refused() {
  for command in ls load sum verify; do
    expect 1 "$ringload" $command "$2"
    complains "$1"
    [ ! -s "$work/out" ] || fail "$command prints all the same"
  done
}

# index NAME: a model whose index names that file.
index() {
  rm -rf "$work/model"
  mkdir "$work/model"
  printf '{"weight_map": {"tensor.0": "%s"}}' "$1" >"$work/model/model.safetensors.index.json"
}
for name in ../secret.safetensors "$work/secret.safetensors" ./../secret.safetensors \
  sub/../../secret.safetensors /proc/self/root/etc/passwd; do
  index "$name"
  refused 'ringload: error: ' "$work/model"
done
index link.safetensors
ln -s ../secret.safetensors "$work/model/link.safetensors"
refused 'ringload: error: ' "$work/model"
ln -sf "$work/secret.safetensors" "$work/model/link.safetensors"
refused 'ringload: error: ' "$work/model"
ln -sf /proc/self/fd/0 "$work/model/link.safetensors"
refused 'ringload: error: ' "$work/model"

# A cache whose snapshot leads out of its repository.
hub=$work/hub/models--o--m
commit=0123456789abcdef0123456789abcdef01234567
mkdir -p "$hub/refs" "$hub/blobs" "$hub/snapshots/$commit"
printf $commit >"$hub/refs/main"
ln -s ../../../../secret.safetensors "$hub/snapshots/$commit/model.safetensors"
HF_HUB_CACHE=$work/hub
export HF_HUB_CACHE
refused 'ringload: error: ' o/m

# What is no file.
rm -rf "$work/model"
mkdir "$work/model"
mkfifo "$work/model/model.safetensors" "$work/fifo.safetensors"
refused 'not a regular file' "$work/model"
refused 'not a regular file' "$work/fifo.safetensors"
for device in /dev/zero /dev/null /dev/tty /dev/stdin; do
  [ -e $device ] || continue
  refused 'ringload: error: ' $device </dev/null
done
