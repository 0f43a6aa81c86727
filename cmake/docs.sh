# SPDX-License-Identifier: Apache-2.0
#
# docs.sh FOLDER: writes the reference of the public headers to FOLDER/html. Fails if Doxygen
# reports a warning, for example that a public name has no comment.

set -eu
case $1 in /*) out=$1 ;; *) out=$PWD/$1 ;; esac
if ! command -v doxygen >/dev/null; then
  echo "skipped: doxygen is not installed"
  exit 77
fi
cd "$(dirname "$0")/.."
mkdir -p "$out"
version=$(sed -n 's/^  VERSION \([0-9.]*\)$/\1/p' CMakeLists.txt)
printf '@INCLUDE = cmake/Doxyfile\nOUTPUT_DIRECTORY = "%s"\nPROJECT_NUMBER = %s\n' \
  "$out" "$version" | doxygen - >"$out/log" 2>&1
if grep -E 'warning|error' "$out/log"; then
  echo "docs: $(grep -c 'is not documented' "$out/log") public names have no comment ($out/log)"
  exit 1
fi
echo "docs: $out/html/index.html"
