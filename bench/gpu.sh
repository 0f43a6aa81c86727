#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# All that is to be known about a GPU, in one go and well within ten minutes: the tests on the real
# runtime, equal sums, the table of bench_gpu, and the sanitizer on a small load.
#
#   bench/gpu.sh [-b BUILD] [-d FOLDER] [-o RESULT] [-s SIZE] [-t SECONDS]
#
#   -b  a build folder that has all it takes; without it the preset `cuda` is built, for this card
#   -d  where the checkpoints go: on the drive that is to be measured. Default: the build folder
#   -o  the file to write. Default: bench/results/gpu-DATE.md
#   -s  the size of the large checkpoint. Default: 8G
#   -t  when to be done, counted from the start, the build included. Default: 540
#
# To measure on a machine that lacks the dependencies, build elsewhere and name the folder by -b.
# What fails, or finds no time left, is said and counted, and the rest goes on. What decides most
# comes first.

set -uo pipefail
cd "$(dirname "$0")/.." || exit 1

build='' folder='' result="bench/results/gpu-$(date +%F).md" size=8G deadline=540
while getopts b:d:o:s:t: option; do
  case $option in
    b) build=$OPTARG ;;
    d) folder=$OPTARG ;;
    o) result=$OPTARG ;;
    s) size=$OPTARG ;;
    t) deadline=$OPTARG ;;
    *) exit 2 ;;
  esac
done

if [ -z "$build" ]; then
  build=build/cuda
  cmake --preset cuda -DRINGLOAD_BENCH=ON -DCMAKE_CUDA_ARCHITECTURES=native >/dev/null &&
    cmake --build --preset cuda --target ringload_cli test_cuda_runtime test_cuda_loads \
      test_cuda_conversions bench_gpu bench_load ringload_adopted || exit 1
fi
folder=${folder:-$build}
work=$(mktemp -d "$folder/gpu.XXXXXX") || exit 1
memory=$(mktemp -d /dev/shm/ringload.XXXXXX) || memory=$work
trap 'rm -rf "$work" "$memory"' EXIT
mkdir -p "$(dirname "$result")"

# program NAME: where the build has put it.
program() { find "$build" -type f -name "$1" -perm -u+x | head -n 1; }
ringload=$(program ringload)

failures=0

# within SECONDS COMMAND...: so long at most, and not past the deadline. 125: not even begun.
within() {
  local limit=$1 left=$((deadline - SECONDS))
  shift
  [ "$left" -lt "$limit" ] && limit=$left
  [ "$limit" -gt 2 ] || return 125
  [ -n "$(type -t "$1")" ] || return 127
  if [ "$(type -t "$1")" = function ]; then
    export -f "$1"
    timeout -k 5 "$limit" bash -c '"$@"' within "$@"
  else
    timeout -k 5 "$limit" "$@"
  fi
}

# how_it_ended CODE BEGIN TITLE: one line, and the end of the output where it failed.
how_it_ended() {
  local took=$((SECONDS - $2))
  case $1 in
    0) echo "- $3: passed, $took s" && return ;;
    77) echo "- $3: skipped" && return ;;
    124 | 137) echo "- $3: FAILED: not done after $took s" ;;
    125) echo "- $3: FAILED: no time left" ;;
    127) echo "- $3: FAILED: the program is not there" ;;
    *) echo "- $3: FAILED after $took s" ;;
  esac
  failures=$((failures + 1))
  tail -n 15 "$work/output" | sed 's/^/    /'
}

# step SECONDS TITLE COMMAND...: says how it ended.
step() {
  local limit=$1 title=$2 begin=$SECONDS
  shift 2
  : >"$work/output"
  within "$limit" "$@" >"$work/output" 2>&1
  how_it_ended $? "$begin" "$title"
}

# rows SECONDS TITLE COMMAND...: what it writes is a part of the table. How it ended comes later,
# for a line between two rows would end the table.
ended=()
rows() {
  local limit=$1 title=$2 begin=$SECONDS code
  shift 2
  within "$limit" "$@" 2>"$work/output"
  code=$?
  ended+=("$(how_it_ended $code "$begin" "table, $title")")
  [ $code -eq 0 ] || [ $code -eq 77 ] || failures=$((failures + 1))
}

# same_sums FILE: what lands on the device is what lands on the host.
same_sums() {
  "$ringload" sum --device host "$1" >"$work/host" &&
    "$ringload" sum --device cuda:0 "$1" >"$work/cuda" && cmp "$work/host" "$work/cuda"
}

# under_sanitizer TOOL FILE OPTION...
under_sanitizer() {
  local tool=$1
  shift
  compute-sanitizer --tool "$tool" --error-exitcode 1 "$ringload" load --device cuda:0 "$@"
}

make_checkpoint() { "$ringload" make --no-progress "$@"; }

# The same numbers on both devices, for each type that can be converted to.
same_conversions() {
  for type in f32 f16 bf16; do
    "$ringload" sum --device host --dtype $type "$1" >"$work/host" &&
      "$ringload" sum --device cuda:0 --dtype $type "$1" >"$work/cuda" &&
      cmp "$work/host" "$work/cuda" || return 1
  done
}
export ringload work

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
  step 60 'conversions on the device' "$(program test_cuda_conversions)"
  step 60 'small checkpoint' make_checkpoint "$work/small.safetensors" --bytes 64M
  step 60 'sums, small' same_sums "$work/small.safetensors"
  step 60 'sums, small, converted' same_conversions "$work/small.safetensors"

  step 60 'adopted by PyTorch' python3 bench/gpu/adopt.py \
    "$(find "$build" -name libringload_adopted.so)" "$work/small.safetensors" 0
  grep -E '^(PyTorch|it refused)' "$work/output" | sed 's/^/    /'

  # The same bytes in 100,000 tensors and in one.
  step 60 'many tensors' make_checkpoint "$memory/many.safetensors" --bytes 1G --tensors 100000
  step 60 'one tensor' make_checkpoint "$memory/one.safetensors" --bytes 1G --tensors 1
  step 60 'sums, many tensors' same_sums "$memory/many.safetensors"
  step 120 'large checkpoint' make_checkpoint "$work/large.safetensors" --bytes "$size"

  local bench_gpu
  bench_gpu=$(program bench_gpu)
  echo
  echo '| what | expected | measured |'
  echo '|---|---|---|'
  rows 30 machine "$bench_gpu" machine
  rows 60 copies "$bench_gpu" copies
  rows 30 conversions "$bench_gpu" conversions
  rows 150 loads "$bench_gpu" loads "$work/large.safetensors" "$memory/many.safetensors" \
    "$memory/one.safetensors"
  rows 30 notices "$bench_gpu" notices
  echo
  printf '%s\n' "${ended[@]}"
  echo
  echo 'What the drive gives, and loads into the host beside it:'
  echo
  echo '```'
  within 60 "$(program bench_load)" --only cold --repeat 2 "$work/large.safetensors" ||
    echo "(it ended with $?)"
  echo '```'
  echo
  echo 'As the tool says it, through the page cache and past it:'
  echo
  echo '```'
  for route in direct buffered; do
    within 30 "$ringload" load --device cuda:0 --route $route "$work/large.safetensors" ||
      echo "(it ended with $?)"
  done
  echo '```'
  echo
  step 90 'sums, large' same_sums "$work/large.safetensors"
  if command -v compute-sanitizer >/dev/null; then
    for tool in memcheck racecheck initcheck; do
      step 60 "compute-sanitizer $tool" under_sanitizer $tool "$work/small.safetensors"
    done
    step 60 'compute-sanitizer memcheck, converted' \
      under_sanitizer memcheck "$work/small.safetensors" --dtype bf16
  else
    echo '- compute-sanitizer: not here'
  fi
  echo
  echo "$failures failures"
}

everything 2>&1 | tee "$result"
tail -n 1 "$result" | grep -q '^0 failures$'
