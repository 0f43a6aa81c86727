#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# Builds and installs the Python package into a virtual environment, against a library that is
# installed already, and runs its tests there.
#
#   run.sh SOURCE PREFIX WORK

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
  ml_dtypes pytest || skip "the packages cannot be had"

package=$(echo "$prefix"/lib*/cmake/ringload)
remote=OFF
[ ! -e "$package/ringload-remote-targets.cmake" ] || remote=ON

# Built as the other tests are: what is found wrong is found, and quickly compiled.
pip install --no-build-isolation --no-deps --force-reinstall \
  -C build-dir="$work/build" -C cmake.build-type=Debug \
  -C cmake.define.ringload_DIR="$package" \
  -C cmake.define.RINGLOAD_PYTHON_REMOTE=$remote \
  -C cmake.define.CMAKE_CXX_FLAGS_DEBUG="-O1 -Wall -Wextra -Werror" "$source"

export PYTHONDONTWRITEBYTECODE=1
venv/bin/python -X dev -W error::ResourceWarning -m pytest -q -p no:cacheprovider \
  --basetemp="$work/temp" "$source/tests/python"
