#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# All that is to be known about a GPU, in one go and in ten minutes. What decides most comes first,
# and every line is written as it is known, so a run that is cut off still tells.
#
#   bench/gpu.sh [-b BUILD] [-d FOLDER] [-o RESULT] [-s SIZE] [-t SECONDS]
#
#   -b  a folder that has the programs. Default: that of a bundle (./dev bundle), where this script
#       lies in one; else the preset `cuda` is built, for this card
#   -d  where the checkpoint for cold loads goes: on the drive that is to be measured. Default: the
#       folder of temporary files
#   -o  the file to write. Default: bench/results/gpu-DATE.md
#   -s  the size of the large checkpoints. Default: 4G
#   -t  when to be done, counted from the start, a build included. Default: 590
#
# A bundle needs a driver and nothing else: no toolkit, no compiler, no CMake.
# What fails, or finds no time left, is said and counted, and the rest goes on.

set -uo pipefail
PATH=$PATH:/usr/local/cuda/bin # compute-sanitizer
cd "$(dirname "$0")/.." || exit 1

build='' folder=${TMPDIR:-/tmp} result="bench/results/gpu-$(date +%F).md" size=4G deadline=590
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

if [ -z "$build" ] && [ -x bin/bench_gpu ]; then build=.; fi
if [ -z "$build" ]; then
  build=build/cuda
  cmake --preset cuda -DRINGLOAD_BENCH=ON -DCMAKE_CUDA_ARCHITECTURES=native >/dev/null &&
    cmake --build --preset cuda --target bundle_programs || exit 1
fi
work=$(mktemp -d "$folder/ringload.XXXXXX") || exit 1
memory=$(mktemp -d /dev/shm/ringload.XXXXXX) || memory=$work
trap 'rm -rf "$work" "$memory"' EXIT
mkdir -p "$(dirname "$result")"

# program NAME: where the build has put it.
program() { find "$build" -type f -name "$1" -perm -u+x | head -n 1; }
ringload=$(program ringload)
bench_gpu=$(program bench_gpu)

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

# ended CODE BEGIN TITLE: one line, and the end of the output where it failed.
ended() {
  local took=$((SECONDS - $2))
  case $1 in
    0) echo "- $3: passed, $took s" && return ;;
    77) echo "- $3: skipped" && return ;;
    124 | 137) echo "- $3: FAILED: not done after $took s" ;;
    125) echo "- $3: FAILED: no time left" ;;
    127) echo "- $3: FAILED: the program is not there" ;;
    *) echo "- $3: FAILED after $took s, exit code $1" ;;
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
  ended $? "$begin" "$title"
}

# rows SECONDS TITLE COMMAND...: what it writes are the rows of a table.
rows() {
  local limit=$1 title=$2 begin=$SECONDS
  shift 2
  printf '\n| %s | expected | measured |\n|---|---|---|\n' "$title"
  : >"$work/output"
  within "$limit" "$@" 2>"$work/output"
  local code=$?
  echo
  ended $code "$begin" "$title"
}

# same_sums FILE: what lands on the device is what lands on the host.
same_sums() {
  "$ringload" sum --device host "$1" >"$work/host" &&
    "$ringload" sum --device cuda:0 "$1" >"$work/cuda" && cmp "$work/host" "$work/cuda"
}

# The same numbers on both devices, for each type that can be converted to.
same_conversions() {
  for type in f32 f16 bf16; do
    "$ringload" sum --device host --dtype $type "$1" >"$work/host" &&
      "$ringload" sum --device cuda:0 --dtype $type "$1" >"$work/cuda" &&
      cmp "$work/host" "$work/cuda" || return 1
  done
}

# under_sanitizer TOOL FILE OPTION...
under_sanitizer() {
  local tool=$1
  shift
  compute-sanitizer --tool "$tool" --error-exitcode 1 "$ringload" load --device cuda:0 "$@"
}

make_checkpoint() { "$ringload" make --no-progress "$@"; }
export ringload work memory

# The card's link is in a power saving state until something is on it.
machine() {
  local card=name,driver_version,memory.total,pcie.link.gen.current,pcie.link.gen.max
  card=$card,pcie.link.width.current,pcie.link.width.max
  timeout 20 "$bench_gpu" copies >/dev/null 2>&1 &
  sleep 3
  nvidia-smi --format=csv --query-gpu=$card
  wait $!
  uname -srm
  lscpu | grep -E 'Model name|^CPU\(s\)|NUMA node'
  echo "io_uring_disabled: $(cat /proc/sys/kernel/io_uring_disabled 2>/dev/null)"
  echo "memlock: $(ulimit -l)"
  df -Th "$work" /dev/shm
  grep -E 'HugePages_Total|MemAvailable' /proc/meminfo
  ldd "$bench_gpu" | grep 'not found'
}

# grow_memory KIB: room for that much in /dev/shm, which is half of the memory at boot. The memory
# is touched once, because a virtual machine whose memory grows on use does not report it before.
grow_memory() {
  case $memory in /dev/shm/*) ;; *) return ;; esac
  fits "$1" "$memory" || mount -o "remount,size=$(($1 + 1024 * 1024))k" /dev/shm || return
  head -c "$(($1 * 1024))" /dev/zero >"$memory/touched"
  local code=$?
  rm -f "$memory/touched"
  return $code
}

# fits KIB FOLDER
fits() { [ "$(df --output=avail "$2" | tail -n 1)" -ge "$1" ]; }

everything() {
  echo "# A GPU, $(date +%F)"
  echo
  echo '```'
  machine
  echo '```'
  local bytes
  bytes=$(numfmt --from=iec "$size")

  step 60 'memory grown and touched' grow_memory $((3 * bytes / 1024))
  rows 60 'What calls do to others' "$bench_gpu" contract
  step 60 'what the library takes for granted' "$(program test_cuda_device)" \
    --source-file='*/contract_test.cpp'

  echo
  step 60 'the kernels' "$(program test_cuda_device)" --source-file='*/kernels_test.cpp'
  step 60 'loads' "$(program test_cuda_device)" --source-file='*/loads_test.cpp'
  step 60 'conversions' "$(program test_cuda_device)" --source-file='*/conversions_test.cpp'
  step 60 'models that are kept' "$(program test_cuda_device)" \
    --source-file='*/kept_models_test.cpp'
  RINGLOAD_NCCL=$(python3 -c 'import os, nvidia.nccl
print(os.path.join(list(nvidia.nccl.__path__)[0], "lib", "libnccl.so.2"))' 2>/dev/null)
  export RINGLOAD_NCCL
  step 60 'one rank of NCCL' "$(program test_cuda_device)" --source-file='*/nccl_device_test.cpp'
  # Where cuFile is that came with PyTorch; it has to be told, for it is no library of the system's.
  local cufile
  cufile=$(python3 -c 'import os, nvidia
for root in nvidia.__path__:
    for folder, _, files in os.walk(root):
        if "libcufile.so.0" in files: print(folder)' 2>/dev/null | head -n 1)
  [ -n "$cufile" ] && export LD_LIBRARY_PATH=$cufile${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
  step 30 'what the runtime says' "$(program test_cuda_device)" --source-file='*/runtime_test.cpp'
  step 60 'small checkpoint' make_checkpoint "$work/small.safetensors" --bytes 64M
  step 60 'sums, small' same_sums "$work/small.safetensors"
  step 60 'sums, small, converted' same_conversions "$work/small.safetensors"
  step 60 'adopted by PyTorch' python3 bench/gpu/adopt.py \
    "$(find "$build" -name libringload_adopted.so | head -n 1)" "$work/small.safetensors" 0
  grep -E '^(PyTorch|it refused)' "$work/output" | sed 's/^/    /'

  # tmpfs before the disk: at 1 GB/s the disk alone would take the time.
  if fits $((bytes / 1024 + 1024 * 1024)) "$memory"; then
    step 60 "checkpoint of $size in memory" make_checkpoint "$memory/large.safetensors" \
      --bytes "$size"
    rows 120 'From memory' "$bench_gpu" warm "$memory/large.safetensors"
    [ -n "$RINGLOAD_NCCL" ] &&
      rows 60 'By one rank, with NCCL' "$bench_gpu" ranks "$memory/large.safetensors"
    rows 60 'From memory, by other loaders' python3 bench/gpu/peers_load.py \
      "$memory/large.safetensors"
    rows 60 'From memory, by others' python3 bench/gpu/safetensors_load.py \
      "$memory/large.safetensors"
    # The same file on a tmpfs of large pages.
    mkdir -p "$memory/huge"
    local huge="huge=always,size=$((bytes / 1024 + 1024 * 1024))k"
    if mount -t tmpfs -o "$huge" tmpfs "$memory/huge"; then
      mv "$memory/large.safetensors" "$memory/huge/"
      rows 60 'From memory of large pages' "$bench_gpu" warm-once "$memory/huge/large.safetensors"
      umount "$memory/huge"
    fi
    rm -f "$memory/large.safetensors"
  else
    echo "- from memory: not measured: /dev/shm has no room for $size"
  fi

  rows 30 'Conversions and small tensors' "$bench_gpu" conversions
  rows 30 'Notices' "$bench_gpu" notices
  rows 60 'Copies' "$bench_gpu" copies
  rows 30 'Batches' "$bench_gpu" batches
  rows 30 'A large batch, which may not survive' "$bench_gpu" large-batch
  rows 30 'The card' "$bench_gpu" machine

  # The same bytes in 100,000 tensors and in one.
  if fits $((3 * 1024 * 1024)) "$memory"; then
    step 60 'many tensors' make_checkpoint "$memory/many.safetensors" --bytes 1G --tensors 100000
    step 60 'one tensor' make_checkpoint "$memory/one.safetensors" --bytes 1G --tensors 1
    step 60 'sums, many tensors' same_sums "$memory/many.safetensors"
    rows 60 '100,000 tensors, and one' "$bench_gpu" warm-once "$memory/many.safetensors" \
      "$memory/one.safetensors"
    rm -f "$memory"/*.safetensors
  fi

  if fits $((bytes / 1024 + 1024 * 1024)) "$work"; then
    step 120 "checkpoint of $size on the drive" make_checkpoint "$work/large.safetensors" \
      --bytes "$size"
    rows 90 'From the drive' "$bench_gpu" cold "$work/large.safetensors"
    printf '\nWhat the drive gives, and loads into the host beside it:\n\n```\n'
    within 60 "$(program bench_load)" --only cold --repeat 2 "$work/large.safetensors" ||
      echo "(it ended with $?)"
    printf '```\n\n'
    step 60 'sums, large' same_sums "$work/large.safetensors"
  else
    echo "- from the drive: not measured: $folder has no room for $size"
  fi

  if command -v compute-sanitizer >/dev/null; then
    step 60 'compute-sanitizer memcheck, converted' \
      under_sanitizer memcheck "$work/small.safetensors" --dtype bf16
    step 60 'compute-sanitizer memcheck' under_sanitizer memcheck "$work/small.safetensors"
    # No racecheck: no kernel uses shared memory. Reports of initcheck are no failure, because a
    # kernel reads whole words, so up to 3 bytes before and after a tensor in the staging buffer.
    within 60 under_sanitizer initcheck "$work/small.safetensors" >"$work/output" 2>&1
    echo "- compute-sanitizer initcheck: ended with $?, $(grep -c Uninitialized "$work/output")" \
      'reads of memory that was never written; reads beside a tensor are expected'
  else
    echo '- compute-sanitizer: not here'
  fi
  echo
  echo "$failures failures"
}

everything 2>&1 | tee "$result"
tail -n 1 "$result" | grep -q '^0 failures$'
