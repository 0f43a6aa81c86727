#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# run.sh MINUTES: runs simulated worlds on all processors, with seeds that nobody chose before.

set -eu
cd "$(dirname "$0")/../.."
first=$(($(date +%s) % 1000000 * 1000000))
started=
for number in $(seq "$(nproc)"); do
  build/release/tests/simulation/simulation --minutes "$1" --first $((first + number * 100000)) &
  started="$started $!"
done
for each in $started; do
  wait "$each"
done
