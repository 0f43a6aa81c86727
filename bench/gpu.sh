#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# All that is to be known about a GPU, in one go and within ten minutes: the tests on the real
# runtime, the sanitizer on a small load, equal sums, and the table of bench_gpu.
#
#   bench/gpu.sh [-b BUILD] [-d FOLDER] [-o RESULT] [-s SIZE]
#
#   -b  a build folder that has all it takes; without it the preset `cuda` is built
#   -d  where the checkpoints go: on the drive that is to be measured. Default: the build folder
#   -o  the file to write. Default: bench/results/gpu-DATE.md
#   -s  the size of the large checkpoint. Default: 8G
#
# To measure on a machine that lacks the dependencies, build elsewhere and name the folder by -b.
# What fails is said and counted, and the rest goes on.

set -uo pipefail
cd "$(dirname "$0")/.." || exit 1

build='' folder='' result="bench/results/gpu-$(date +%F).md" size=8G
while getopts b:d:o:s: option; do
  case $option in
    b) build=$OPTARG ;;
    d) folder=$OPTARG ;;
    o) result=$OPTARG ;;
    s) size=$OPTARG ;;
    *) exit 2 ;;
  esac
done

if [ -z "$build" ]; then
  build=build/cuda
  cmake --preset cuda -DRINGLOAD_BENCH=ON >/dev/null && cmake --build --preset cuda || exit 1
fi
folder=${folder:-$build}
work=$(mktemp -d "$folder/gpu.XXXXXX") || exit 1
memory=$(mktemp -d /dev/shm/ringload.XXXXXX) || exit 1
trap 'rm -rf "$work" "$memory"' EXIT
mkdir -p "$(dirname "$result")"

# program NAME: where the build has put it.
program() { find "$build" -type f -name "$1" -perm -u+x | head -n 1; }
ringload=$(program ringload)

failures=0
# step SECONDS TITLE COMMAND...: says how it ended.
step() {
  local limit=$1 title=$2
  shift 2
  local begin=$SECONDS
  if timeout "$limit" "$@" >"$work/output" 2>&1; then
    echo "- $title: passed, $((SECONDS - begin)) s"
  elif [ $? -eq 77 ]; then
    echo "- $title: skipped"
  else
    echo "- $title: FAILED after $((SECONDS - begin)) s"
    tail -n 15 "$work/output" | sed 's/^/    /'
    failures=$((failures + 1))
  fi
}

# same_sums FILE: what lands on the device is what lands on the host.
same_sums() {
  "$ringload" sum --device host "$1" >"$work/host" &&
    "$ringload" sum --device cuda:0 "$1" >"$work/cuda" && cmp "$work/host" "$work/cuda"
}

# under_sanitizer TOOL FILE
under_sanitizer() {
  compute-sanitizer --tool "$1" --error-exitcode 1 "$ringload" load --device cuda:0 "$2"
}

make_checkpoint() { "$ringload" make --no-progress "$@"; }

everything() {
  echo "# A GPU, $(date +%F)"
  echo
  echo '```'
  nvidia-smi --format=csv,noheader \
    --query-gpu=name,driver_version,memory.total,pcie.link.gen.max,pcie.link.width.max
  uname -srm
  lscpu | grep -E 'Model name|^CPU\(s\)'
  cat /proc/sys/kernel/io_uring_disabled 2>/dev/null
  df -T "$work" | tail -n 1
  grep -E 'HugePages_Total|MemAvailable' /proc/meminfo
  echo '```'
  echo

  step 30 'the runtime answers' "$(program test_cuda_runtime)"
  step 60 'loads on the device' "$(program test_cuda_loads)"

  step 60 'small checkpoint' make_checkpoint "$work/small.safetensors" --bytes 64M
  step 60 'sums, small' same_sums "$work/small.safetensors"
  if command -v compute-sanitizer >/dev/null; then
    for tool in memcheck racecheck initcheck; do
      step 60 "compute-sanitizer $tool" under_sanitizer $tool "$work/small.safetensors"
    done
  else
    echo '- compute-sanitizer: not here'
  fi
  rm "$work/small.safetensors"

  # The same bytes in 100,000 tensors and in one.
  step 60 'many tensors' make_checkpoint "$memory/many.safetensors" --bytes 1G --tensors 100000
  step 60 'one tensor' make_checkpoint "$memory/one.safetensors" --bytes 1G --tensors 1
  step 60 'sums, many tensors' same_sums "$memory/many.safetensors"
  step 120 'large checkpoint' make_checkpoint "$work/large.safetensors" --bytes "$size"
  step 120 'sums, large' same_sums "$work/large.safetensors"

  echo
  timeout 300 "$(program bench_gpu)" "$memory/many.safetensors" "$memory/one.safetensors" \
    "$work/large.safetensors" || failures=$((failures + 1))
  echo
  echo "Through the page cache, and past it, as the tool says it:"
  echo
  echo '```'
  for route in direct buffered; do
    timeout 60 "$ringload" load --device cuda:0 --route $route "$work/large.safetensors"
  done
  echo '```'
  echo
  echo "$failures failures"
}

everything 2>&1 | tee "$result"
tail -n 1 "$result" | grep -q '^0 failures$'
