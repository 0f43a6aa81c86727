#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# bench/gpu/try.sh: runs each program of the bundle that has this file. Without a driver, a program
# must report that no driver was found, with the exit code that its help documents. So a machine
# without a card shows that the programs start with the libraries of the bundle alone.

set -u
bin=$(cd "$(dirname "$0")/../../bin" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# expect CODE TEXT PROGRAM ARGUMENT...: the program must end with this exit code and print the text.
expect() {
  expected=$1 text=$2 program=$3
  shift 3
  code=0
  timeout 60 "$bin/$program" "$@" >"$work/output" 2>&1 || code=$?
  if [ $code -ne "$expected" ] || ! grep -qF "$text" "$work/output"; then
    echo "bundle: FAILED: $program $*: exit code $code, expected $expected and '$text':"
    cat "$work/output"
    exit 1
  fi
}

none='no CUDA device: driver not found'
small=$work/small.safetensors
expect 0 16 ringload make --no-progress "$small" --bytes 1M
expect 0 '' ringload --version
expect 0 '' ringload load --no-progress --device host "$small"
expect 0 Usage bench_load --help
expect 1 'No such file or directory' attach_gpu_tool "$work/no-such-socket" m 0
code=0
"$bin/bench_gpu" notices >"$work/output" 2>&1 || code=$?
if [ $code -eq 0 ]; then
  echo "bundle: this machine has a driver: what the programs say without one is not tried"
  exit 0
fi
expect 77 "$none" bench_gpu notices
expect 1 "$none" ringload load --no-progress --device cuda:0 "$small"
expect 77 "$none" test_cuda_device --source-file='*/contract_test.cpp'
: >"$work/keeper.log"
"$bin/ringload" keep --socket "$work/keeper" "m=$small" >"$work/keeper.log" 2>&1 &
keeper=$!
tries=0
until grep -q '^m: ' "$work/keeper.log" || [ $tries -eq 100 ]; do # The model is published.
  tries=$((tries + 1))
  sleep 0.1
done
expect 1 "$none" attach_gpu_tool "$work/keeper" m 0
kill $keeper
echo "bundle: each program ran as far as it can without a driver"
