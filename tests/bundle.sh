#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# bundle.sh [ARCHIVE]: unpacks build/bundle.tgz in a bare root folder, and runs each program there
# (bench/gpu/try.sh). The root has the C library, a shell and the few commands of try.sh, so it has
# no compiler, and no library that a program could find by chance. ./dev bundle calls this script.
# `./dev check bundle` does the same on a bare Debian 12, which takes longer to make.

set -eu
cd "$(dirname "$0")/.."

if [ "${1:-}" = --inside ]; then
  mount --rbind /dev "$2/dev"
  mount -t proc proc "$2/proc"
  exec env -i PATH=/bin /usr/sbin/chroot "$2" /bin/sh /bundle/bench/gpu/try.sh
fi

archive=${1:-build/bundle.tgz}
root=$(mktemp -d)
trap 'rm -rf --one-file-system "$root"' EXIT
mkdir "$root/bin" "$root/dev" "$root/proc" "$root/tmp"
tar -C "$root" -xzf "$archive"

# The files of the C library that the programs themselves need, at their own paths.
c_library=$(ldd "$root"/bundle/bin/* | sed -n 's/^\t\([^ ]* => \)\{0,1\}\(\/[^ ]*\) .*/\2/p' |
  grep -E '/(ld-linux[^/]*|lib(c|m|dl|rt|pthread|resolv))\.so' | sort -u)
copy() {
  mkdir -p "$root$(dirname "$1")"
  cp -L "$1" "$root$1"
}
for file in $c_library; do copy "$file"; done
for command in sh cat dirname env grep kill mktemp rm sleep timeout; do
  file=$(command -v "$command")
  case $file in
    /*) ;;
    *) continue ;; # A command of the shell itself.
  esac
  cp -L "$file" "$root/bin/$command"
  for library in $(ldd "$file" | sed -n 's/.* => \(\/[^ ]*\) .*/\1/p'); do copy "$library"; done
done

as_root=
[ "$(id -u)" -eq 0 ] || as_root='--user --map-root-user'
# shellcheck disable=SC2086
if ! unshare $as_root --mount true 2>/dev/null; then
  echo "bundle: the bare root is skipped: mount namespaces are refused here" >&2
  sh "$root/bundle/bench/gpu/try.sh"
  exit
fi
# shellcheck disable=SC2086
unshare $as_root --mount --pid --fork --kill-child sh "$0" --inside "$root"
