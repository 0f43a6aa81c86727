#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# Installs the files of build/release-files in clean places, without a compiler, tries them, and
# removes them again: nothing stays behind.
#
#   check.sh            all parts
#   check.sh PART...    port, the vcpkg port
#                       wheel, the wheel for each Python from 3.10 on that is found here
#                       packages, the Debian packages in a new root of Debian 12
#                       roots, the wheel in new roots of Debian 12 and 13
#                       sdist, only if it is named, for it takes as long as the build: the sdist
#                       in a new root of Debian 12 with a compiler, and its tests
#
# The last three parts are skipped without root and debootstrap. $RINGLOAD_PYTHONS names
# more interpreters. $RINGLOAD_ROOTS names the folder for the roots.
#
# All mounts are made in a mount namespace of the script's own, which the kernel removes with it.

set -eu
cd "$(dirname "$0")/../.."
files=$PWD/build/release-files
work=$PWD/build/release/check
roots=${RINGLOAD_ROOTS:-$work}

# The port takes the archive by its hash. -O0, because no one measures these builds.
check_port() {
  cmake -D LINKAGE=static -D PORT_FOLDER="$files/vcpkg-port" -D DOWNLOADS="$files" \
    -D WORK="$work/port" \
    -D "SETTINGS=-DCMAKE_CXX_FLAGS_RELEASE=-O0;-DCMAKE_CXX_FLAGS_DEBUG=-O0;\
-DCMAKE_UNITY_BUILD=ON;-DCMAKE_UNITY_BUILD_BATCH_SIZE=32" \
    -P cmake/run_portfile.cmake >"$work/port.log" 2>&1 || { tail -n 40 "$work/port.log"; exit 1; }
  rm -rf "$work/port"
  echo "vcpkg port: passed: archive by its hash, built, installed, and used by a program"
}

# The wheel needs one package, of which each version of Python has its own.
download_wheels() {
  [ ! -d "$work/wheels" ] || return 0
  for version in 3.10 3.11 3.12 3.13 3.14; do
    build/release/venv/bin/python -m pip -q download --only-binary :all: \
      --python-version $version -d "$work/wheels" "$files"/python/*.whl
  done
}

check_wheel() {
  download_wheels
  tried=
  for python in python3.10 python3.11 python3.12 python3.13 python3.14 /usr/bin/python3 \
    "${PYENV_ROOT:-$HOME/.pyenv}"/versions/3.1[0-9]*/bin/python3 ${RINGLOAD_PYTHONS:-}; do
    found=$(command -v "$python") || continue
    version=$("$found" --version 2>/dev/null) || continue
    case $tried in *"$version,"*) continue ;; esac
    tried="$tried$version,"
    sh cmake/release/try_wheel.sh "$found" "$work/wheels" "$PWD/cmake/release/example.py" \
      "$PWD/tests/data/hdf5/chunked.h5" "$work/wheel"
  done
}

# enter CODENAME: makes the bare root $bare, whose folder /try has the files to try.
enter() {
  bare=$roots/$1
  if [ ! -e "$roots/$1.tar" ]; then
    rm -rf --one-file-system "$bare"
    mkdir -p "$bare"
    bare_root "$1" "$bare" "$work/debootstrap-$1.log" || {
      tail -n 20 "$work/debootstrap-$1.log"
      exit 1
    }
    tar -C "$bare" -cf "$roots/$1.tar.part" .
    mv "$roots/$1.tar.part" "$roots/$1.tar"
  fi
  rm -rf --one-file-system "$bare"
  mkdir -p "$bare"
  tar -C "$bare" -xpf "$roots/$1.tar"
  cp -L /etc/resolv.conf /etc/hosts "$bare/etc/"
  mount -t proc proc "$bare/proc"
  mount --rbind /dev "$bare/dev"
  mkdir "$bare/try"
  cp -r README.md cmake/release/example.py cmake/release/try_*.sh tests/data/hdf5/chunked.h5* \
    "$bare/try/"
}
# in_root COMMAND...: without the environment of this machine, whose files the root lacks.
in_root() {
  chroot "$bare" env -i HOME=/root PATH=/usr/sbin:/usr/bin:/sbin:/bin "$@"
}
leave() {
  umount "$bare/proc"
  umount --recursive "$bare/dev"
  rm -rf --one-file-system "$bare"
}

check_packages() {
  enter bookworm
  cp "$files"/*.deb "$bare/try/"
  in_root bash /try/try_packages.sh
  echo "Debian packages: passed: installed, used, reinstalled and purged in Debian 12"
  leave
}

check_roots() {
  download_wheels
  for codename in bookworm trixie; do
    enter $codename
    cp -r "$work/wheels" "$bare/try/"
    in_root sh -c 'apt-get -qq update &&
      DEBIAN_FRONTEND=noninteractive apt-get -qq -y install --no-install-recommends \
        python3-venv' >"$work/apt-$codename.log" 2>&1 || { cat "$work/apt-$codename.log"; exit 1; }
    in_root sh /try/try_wheel.sh python3 /try/wheels /try/example.py /try/chunked.h5 \
      /tmp/wheel
    leave
  done
}

# What pip needs is downloaded here, because the root does not know this machine's settings of pip.
check_sdist() {
  build/release/venv/bin/python -m pip -q download --only-binary :all: --python-version 3.11 \
    -d "$work/sdist-wheels" 'scikit-build-core>=0.11' 'nanobind>=3.1,<4' \
    'nanobind-backend>=1.0,<2' ninja numpy ml_dtypes pytest mypy tqdm
  enter bookworm
  cp -r "$work/sdist-wheels" "$bare/try/wheels"
  cp "$files"/python/*.tar.gz "$bare/try/"
  in_root bash /try/try_sdist.sh
  echo "sdist: passed: built, installed, tested and removed in Debian 12"
  leave
}

if [ "${1:-}" = --inside ]; then
  . cmake/release/bare_root.sh
  "check_$2"
  exit
fi

[ $# -gt 0 ] || set -- port wheel packages roots
rm -rf --one-file-system "$work"
mkdir -p "$work"
(cd "$files" && sha256sum --quiet -c SHA256SUMS)
echo "checksums: passed"
for part in "$@"; do
  begin=$(date +%s)
  case $part in
    port | wheel) "check_$part" ;;
    packages | roots | sdist)
      if [ "$(id -u)" -eq 0 ] && command -v debootstrap >/dev/null; then
        setpriv --pdeathsig KILL unshare --mount --pid --fork --kill-child \
          sh cmake/release/check.sh --inside "$part"
      else
        echo "$part: skipped: needs root and debootstrap"
      fi
      ;;
    *)
      echo "check.sh: no such part: $part" >&2
      exit 2
      ;;
  esac
  echo "$part: $(($(date +%s) - begin)) s"
done
