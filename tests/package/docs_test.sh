# SPDX-License-Identifier: Apache-2.0
#
# docs_test.sh SOURCE WORK: cmake/docs.sh fails if a function of the C++ interface, a member, or a
# function of the C interface has no comment.

set -eu
if ! command -v doxygen >/dev/null; then
  echo "skipped: doxygen is not installed"
  exit 77
fi
source=$1
work=$2
rm -rf "$work"
mkdir -p "$work"
cp -r "$source/cmake" "$source/include" "$source/CMakeLists.txt" "$work"

# remove FILE LINE: removes the only line of the header that has this text.
remove() {
  file=$work/include/ringload/$1
  if [ "$(grep -c -F -x "$2" "$file")" != 1 ]; then
    echo "$1 must have this line once: $2"
    exit 1
  fi
  grep -v -F -x "$2" "$file" >"$file.new"
  mv "$file.new" "$file"
}
remove error.hpp '/// Returns the category of `condition`.'
remove model.hpp '  /// Returns the iterator behind the last tensor.'
remove c.h '/// Describes a tensor and its memory.'

if sh "$work/cmake/docs.sh" "$work/docs" >"$work/output"; then
  echo "docs.sh did not fail"
  exit 1
fi
cat "$work/output"
for name in condition_category 'end()' ringload_tensor_look; do
  if ! grep -F "$name" "$work/output" | grep -q 'is not documented'; then
    echo "docs.sh did not report $name"
    exit 1
  fi
done
