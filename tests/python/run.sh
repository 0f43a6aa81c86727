#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# Builds and installs the Python package into a virtual environment, and runs its tests there:
# against a library that is installed already, or, with a library of its own, under sanitizers.
#
#   run.sh SOURCE PREFIX WORK
#   run.sh SOURCE asan WORK

set -eu
source=$1 prefix=$2 work=$3

skip() {
  echo "skipped: $*"
  exit 77
}

python=$(command -v python3) || skip "no python3"
"$python" -c 'import sys; sys.exit(sys.version_info < (3, 10))' || skip "python3 is older than 3.10"
"$python" -c 'import ensurepip, venv' 2>/dev/null || skip "no venv (Debian: python3-venv)"
header=$("$python" -c 'import sysconfig; print(sysconfig.get_path("include"))')/Python.h
[ -e "$header" ] || skip "no Python.h (Debian: python3-dev)"

mkdir -p "$work"
cd "$work"
[ -x venv/bin/python ] || "$python" -m venv venv
pip() { venv/bin/python -m pip --disable-pip-version-check -q "$@"; }
pip install 'scikit-build-core>=0.11' 'nanobind>=3.1,<4' 'nanobind-backend>=1.0,<2' ninja numpy \
  ml_dtypes pytest mypy tqdm || skip "the packages cannot be had"

# install_package FLAGS OPTION...
install_package() {
  flags=$1
  shift
  pip install --no-build-isolation --no-deps --force-reinstall \
    -C build-dir="$work/build" -C cmake.build-type=Debug \
    -C cmake.define.CMAKE_CXX_FLAGS_DEBUG="$flags" "$@" "$source"
}

# Against the installed library, as the other tests are built: what is found wrong is found, and
# quickly compiled.
install_quickly() {
  package=$(echo "$prefix"/lib*/cmake/ringload)
  remote=OFF
  [ ! -e "$package/ringload-remote-targets.cmake" ] || remote=ON
  install_package "-O1 -Wall -Wextra -Werror" \
    -C cmake.define.ringload_DIR="$package" -C cmake.define.RINGLOAD_PYTHON_REMOTE=$remote
}

# The interpreter is not linked with the sanitizer's library, so that is preloaded; and when that
# begins, it looks for what it replaces of libstdc++.
install_with() {
  export CXX=clang++-19
  command -v $CXX >/dev/null || skip "no $CXX"
  runtime=$($CXX -print-resource-dir)/lib/linux/libclang_rt.$prefix-$(uname -m).so
  [ -e "$runtime" ] || skip "no $runtime (Debian: libclang-rt-19-dev)"
  install_package "-O1 -g1 $* -shared-libsan -Wno-unused-command-line-argument" \
    -C cmake.define.RINGLOAD_INSTALLED=OFF -C cmake.define.RINGLOAD_PYTHON_REMOTE=ON \
    -C cmake.define.RINGLOAD_CUDA=OFF -C cmake.define.CMAKE_UNITY_BUILD=ON
  export LD_PRELOAD="$runtime $($CXX -print-file-name=libstdc++.so.6)"
}

case $prefix in
  asan)
    install_with -fsanitize=address,undefined -fno-sanitize=vptr -fno-sanitize-recover=all
    # The interpreter keeps what it never frees.
    export ASAN_OPTIONS=detect_leaks=0:detect_stack_use_after_return=1
    export UBSAN_OPTIONS=print_stacktrace=1
    ;;
  *) install_quickly ;;
esac

export PYTHONDONTWRITEBYTECODE=1
venv/bin/python -X dev -W error::ResourceWarning -m pytest -q -p no:cacheprovider \
  --basetemp="$work/temp" "$source/tests/python"
