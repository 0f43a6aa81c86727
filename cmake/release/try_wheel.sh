#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# Installs the wheel without a compiler and without a network, loads files, and removes the wheel.
# Nothing may stay behind.
#
#   try_wheel.sh PYTHON WHEELS EXAMPLE HDF5_FILE WORK
#
# WHEELS is a folder with the wheel and with nanobind-backend. WORK is a folder for a virtual
# environment and for the model of the program EXAMPLE.

set -eu
python=$1 wheels=$2 example=$3 hdf5_file=$4 work=$5
place=$work/venv
rm -rf "$work"
mkdir -p "$work/run"
files() { (cd "$place" && find . -name __pycache__ -prune -o -print | LC_ALL=C sort); }
pip() { PATH="$place/bin" "$place/bin/python" -m pip -q --disable-pip-version-check "$@"; }

"$python" -m venv "$place"
files >"$work/before"
pip install --no-index --find-links "$wheels" --only-binary :all: ringload
(cd "$work/run" && env -u PYTHONPATH PATH="$place/bin" \
  "$place/bin/python" -B "$example" "$hdf5_file" >/dev/null)
pip uninstall -y ringload nanobind-backend
files >"$work/after"
diff "$work/before" "$work/after"
echo "wheel: passed: $("$python" --version), $("$python" -c \
  'import platform; print(*platform.libc_ver())')"
rm -rf "$work"
