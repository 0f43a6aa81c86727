# SPDX-License-Identifier: Apache-2.0
#
# vcpkg.sh SOURCE WORK: installs the port by the vcpkg in $VCPKG_ROOT, static and dynamic, with the
# port checks enforced, and builds and runs a consumer in classic and in manifest mode. Then
# x-test-features builds each feature alone. What is installed is the last commit. Its archive is
# put where vcpkg looks for a download, so only the archive's hash is replaced in the port.
#
# All features are installed but cuda, which is added if there is an nvcc.

set -eu
if [ -z "${VCPKG_ROOT:-}" ]; then
  echo "skipped: no vcpkg (VCPKG_ROOT is not set)"
  exit 77
fi
source=$1
work=$2
rm -rf "$work"
mkdir -p "$work/downloads" "$work/ports"

version=$(sed -n 's/^  "version": "\(.*\)",$/\1/p' "$source/cmake/port/vcpkg.json")
repo=$(sed -n 's/^  REPO //p' "$source/cmake/port/portfile.cmake")
archive=$work/downloads/$(echo "$repo" | tr / -)-v$version.tar.gz
git -C "$source" archive --format=tar.gz --prefix="ringload-$version/" -o "$archive" HEAD
hash=$(sha512sum "$archive")
cp -r "$source/cmake/port" "$work/ports/ringload"
sed -i "s/^  SHA512 .*/  SHA512 ${hash%% *}/" "$work/ports/ringload/portfile.cmake"

export VCPKG_DOWNLOADS="$work/downloads"
toolchain=$VCPKG_ROOT/scripts/buildsystems/vcpkg.cmake
machine=$(uname -m | sed 's/x86_64/x64/; s/aarch64/arm64/')

features=c,deflate,hdf5,mpi,remote,tools,zstd
components="-D C=ON -D HDF5=ON -D MPI=ON -D REMOTE=ON"
if command -v nvcc >/dev/null; then
  features=$features,cuda
  components="$components -D CUDA=ON"
fi

for triplet in "$machine-linux" "$machine-linux-dynamic"; do
  "$VCPKG_ROOT/vcpkg" install "ringload[$features]" --classic --triplet "$triplet" \
    --overlay-ports="$work/ports" --x-install-root="$work/installed" --enforce-port-checks
  for build_type in Debug Release; do
    # shellcheck disable=SC2086
    cmake -D WAY=find_package -D SOURCE="$source" -D BUILD_TYPE=$build_type $components \
      -D WORK="$work/classic-$triplet-$build_type" \
      -D "MORE=-DCMAKE_TOOLCHAIN_FILE=$toolchain;-DVCPKG_TARGET_TRIPLET=$triplet;\
-DVCPKG_INSTALLED_DIR=$work/installed;-DVCPKG_MANIFEST_MODE=OFF" \
      -P "$source/tests/consumer/consume.cmake"
  done
  for tool in ringload uring-bench; do
    "$work/installed/$triplet/tools/ringload/$tool" --version
  done
done
"$VCPKG_ROOT/vcpkg" x-test-features ringload --overlay-ports="$work/ports" \
  --triplet "$machine-linux"

# In manifest mode the consumer's own vcpkg.json asks for ringload.
mkdir -p "$work/manifest"
cat >"$work/manifest/vcpkg.json" <<'TEXT'
{
  "dependencies": [
    "ringload",
    { "name": "boost-asio", "default-features": false }
  ]
}
TEXT
cmake -D WAY=find_package -D SOURCE="$source" -D BUILD_TYPE=Release \
  -D WORK="$work/manifest-consumer" \
  -D "MORE=-DCMAKE_TOOLCHAIN_FILE=$toolchain;-DVCPKG_MANIFEST_DIR=$work/manifest;\
-DVCPKG_OVERLAY_PORTS=$work/ports" \
  -P "$source/tests/consumer/consume.cmake"
