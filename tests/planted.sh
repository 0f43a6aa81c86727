#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# planted.sh SUITE --check
# planted.sh SUITE [MINUTES [NAME...]]
#
# Puts each bug of the folder tests/SUITE/planted into a copy of the sources, and measures how long
# the program of the suite takes to find it. SUITE is `simulation` or `cuda`. A bug that is not
# found within so many minutes (default: 10) is a failure. Builds in build/planted. With --check,
# only tests whether each patch still applies.

set -euo pipefail
# A planted bug may leave a variable unused.
unset RINGLOAD_WERROR
cd "$(dirname "$0")/.."
suite=${1:-}
case $suite in
  simulation) targets=(simulation) ;;
  cuda) targets=(test_cuda attach_device_tool) ;;  # The tests start the tool beside them.
  *)
    echo "usage: planted.sh simulation|cuda [--check | MINUTES [NAME...]]" >&2
    exit 2
    ;;
esac
shift
patches=$PWD/tests/$suite/planted

if [ "${1:-}" = --check ]; then
  stale=0
  for file in "$patches"/*.patch; do
    if ! patch -s --dry-run -p1 <"$file" >/dev/null; then
      echo "$(basename "$file"): does not apply, so the bug must be planted again"
      stale=$((stale + 1))
    fi
  done
  [ "$stale" -eq 0 ]
  exit
fi

minutes=${1:-10}
[ $# -eq 0 ] || shift
if [ $# -eq 0 ]; then
  for file in "$patches"/*.patch; do set -- "$@" "$(basename "$file" .patch)"; done
fi

folder=$PWD/build/planted
rm -rf "$folder/programs"
mkdir -p "$folder/source" "$folder/programs"
# A source that an interrupted run has left patched is new to the build system.
git ls-files -co --exclude-standard | while read -r name; do
  cmp -s "$name" "$folder/source/$name" && continue
  mkdir -p "$(dirname "$folder/source/$name")"
  cp "$name" "$folder/source/$name"
done
cd "$folder/source"

# A patched source is compiled alone, so that a patch takes seconds.
{
  echo "cmake_language(DEFER CALL set_source_files_properties"
  cat "$patches"/*.patch | sort -u |
    sed -n 's|^+++ b/\(.*\.cpp\)$|  ${CMAKE_CURRENT_SOURCE_DIR}/\1|p'
  echo "  DIRECTORY engine tests/cuda PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)"
} >"$folder/alone.cmake"
cmake --preset dev -B ../build -DRINGLOAD_CUDA=OFF -DRINGLOAD_APPS=OFF -DRINGLOAD_BENCH=OFF \
  -DRINGLOAD_EXAMPLES=OFF -DCMAKE_PROJECT_ringload_INCLUDE="$folder/alone.cmake" \
  >"$folder/configure.log"
build() { cmake --build ../build --target "${targets[@]}" >"$folder/build.log" 2>&1; }
build
program=../build/tests/$suite/${targets[0]}
case $suite in
  simulation) "$program" --seeds 20 --quiet >/dev/null ;;
  cuda)
    cp ../build/tests/cuda/attach_device_tool "$folder/programs"
    "$program" >/dev/null
    ;;
esac

# Prints each name when its program is built. Builds further programs while the first ones run.
build_all() {
  local name file
  for name in "$@"; do
    patch -s -p1 <"$patches/$name.patch" >&2
    if build; then
      cp "$program" "$folder/programs/$name"
    else
      cp "$folder/build.log" "$folder/programs/$name.log"
    fi
    # A reversed patch may change another place with the same lines.
    for file in $(sed -n 's|^+++ b/||p' "$patches/$name.patch"); do
      cp "../../../$file" "$file"
    done
    echo "$name"
  done
}

missed=0
while read -r name; do
  if [ ! -e "$folder/programs/$name" ]; then
    echo "$name: does not compile: $folder/programs/$name.log"
    missed=$((missed + 1))
    continue
  fi
  log=$folder/programs/$name.log
  begin=$EPOCHREALTIME
  code=0
  # A world whose time no longer passes ends by the time limit, and counts as found as well.
  case $suite in
    simulation)
      arguments=(--minutes "$minutes" --first "$((RANDOM * 32768 + RANDOM))" --quiet)
      ;;
    cuda) arguments=(--abort-after=1) ;;
  esac
  timeout "$((minutes * 60 + 60))" \
    "$folder/programs/$name" "${arguments[@]}" >"$log" 2>&1 </dev/null || code=$?
  seconds=$(awk "BEGIN { printf \"%.1f\", $EPOCHREALTIME - $begin }")
  if [ "$code" -eq 0 ]; then
    echo "$name: NOT FOUND in $minutes minutes: $(tail -n 1 "$log")"
    missed=$((missed + 1))
  else
    found=$(grep -m1 -e violation -e "^TEST CASE:" "$log" || echo "exit code $code")
    echo "$name: found in $seconds s: $found" \
      "($(sed -n 's/^found after //p' "$log"))"
  fi
  rm "$folder/programs/$name"
done < <(build_all "$@")
echo "$missed of $# not found"
[ "$missed" -eq 0 ]
