#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# Installs the files of build/release-files in clean places, without a compiler, tries them, and
# removes them again: nothing stays behind.
#
#   check.sh    the wheel, for each Python from 3.10 on that is found here; if this is root and
#               debootstrap is there, also in new roots of Debian 12 and 13, and the Debian packages
#               in the root of Debian 12
#
# $RINGLOAD_PYTHONS names more interpreters. $RINGLOAD_ROOTS names the folder for the roots.

set -eu
cd "$(dirname "$0")/../.."
files=$PWD/build/release-files
work=$PWD/build/release/check
rm -rf "$work"
mkdir -p "$work"

(cd "$files" && sha256sum --quiet -c SHA256SUMS)
echo "checksums: passed"

cat >"$work/example.py" <<'PYTHON'
import struct, json, sys, ringload
values = struct.pack("<4f", 1, 2, 3, 4)
header = json.dumps({"x": {"dtype": "F32", "shape": [4], "data_offsets": [0, 16]}}).encode()
open("model.safetensors", "wb").write(struct.pack("<Q", len(header)) + header + values)
assert all(ringload.features()[name] for name in ("remote", "zstd", "deflate", "hdf5"))
model = ringload.load("model.safetensors")
assert bytes(model["x"].byte_view()) == values
try:
    ringload.load("absent.safetensors")
except FileNotFoundError as failure:
    print(failure)
if len(sys.argv) > 1:  # A file of HDF5, which is parsed by the program in the wheel.
    assert ringload.load(sys.argv[1], verify=sys.argv[1] + ".manifest")
PYTHON

# The port takes the archive by its hash. -O0, because no one measures these builds.
cmake -D LINKAGE=static -D PORT_FOLDER="$files/vcpkg-port" -D DOWNLOADS="$files" \
  -D WORK="$work/port" \
  -D "SETTINGS=-DCMAKE_CXX_FLAGS_RELEASE=-O0;-DCMAKE_CXX_FLAGS_DEBUG=-O0;-DCMAKE_UNITY_BUILD=ON;\
-DCMAKE_UNITY_BUILD_BATCH_SIZE=32" \
  -P cmake/run_portfile.cmake >"$work/port.log" 2>&1 || { tail -n 40 "$work/port.log"; exit 1; }
rm -rf "$work/port"
echo "vcpkg port: passed: archive by its hash, built, installed, and used by a program"

# The wheel needs one package, of which each version of Python has its own.
for version in 3.10 3.11 3.12 3.13 3.14; do
  build/release/venv/bin/python -m pip -q download --only-binary :all: --python-version $version \
    -d "$work/wheels" "$files"/python/*.whl
done

tried=
for python in python3.10 python3.11 python3.12 python3.13 python3.14 /usr/bin/python3 \
  "${PYENV_ROOT:-$HOME/.pyenv}"/versions/3.1[0-9]*/bin/python3 ${RINGLOAD_PYTHONS:-}; do
  found=$(command -v "$python") || continue
  version=$("$found" --version 2>/dev/null) || continue
  case $tried in *"$version,"*) continue ;; esac
  tried="$tried$version,"
  sh cmake/release/try_wheel.sh "$found" "$work/wheels" "$work/example.py" \
    "$PWD/tests/data/hdf5/chunked.h5" "$work/wheel"
done

if [ "$(id -u)" -ne 0 ] || ! command -v debootstrap >/dev/null; then
  echo "bare roots, Debian packages: skipped: needs root and debootstrap"
  exit 0
fi
roots=${RINGLOAD_ROOTS:-$work}
trap 'umount -R "$roots"/*/proc "$roots"/*/dev 2>/dev/null || true' EXIT

# enter CODENAME: makes the bare root $bare, whose folder /try has the files to try.
enter() {
  bare=$roots/$1
  rm -rf --one-file-system "$bare"
  debootstrap --variant=minbase "$1" "$bare" >"$work/debootstrap-$1.log" 2>&1
  mount --bind /proc "$bare/proc"
  mount --rbind /dev "$bare/dev"
  mount --make-rslave "$bare/dev"
  mkdir "$bare/try"
  cp -r "$work/wheels" "$work/example.py" README.md cmake/release/try_*.sh \
    tests/data/hdf5/chunked.h5* "$bare/try/"
}
leave() {
  umount -R "$bare/proc" "$bare/dev"
  rm -rf --one-file-system "$bare"
}

enter bookworm
cp "$files"/*.deb "$bare/try/"
chroot "$bare" bash /try/try_packages.sh
echo "Debian packages: passed: installed, used, reinstalled and purged in Debian 12"
leave

for codename in bookworm trixie; do
  enter $codename
  chroot "$bare" sh -c 'apt-get -qq update &&
    DEBIAN_FRONTEND=noninteractive apt-get -qq -y install --no-install-recommends python3-venv' \
    >"$work/apt-$codename.log" 2>&1
  chroot "$bare" sh /try/try_wheel.sh python3 /try/wheels /try/example.py /try/chunked.h5 /tmp/wheel
  leave
done
