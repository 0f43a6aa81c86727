#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# random.sh COMPARE_BLOCKS [BLOCKS]: makes a GGUF file of random blocks, so many of each type in a
# row, and compares what the package gguf makes of them with what we do. Not a part of ./dev test;
# PYTHON names an interpreter that has the package.

set -eu
here=$(cd "$(dirname "$0")" && pwd)
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${PYTHON:-python3}" "$here/make.py" "$folder" "${2:-2000}"
"$1" "$folder/many_blocks.gguf" "$folder/wild_blocks.gguf"
