#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# compare_builds.sh [SEEDS [FIRST]]: compares the order of events of each seed between the builds of
# the presets dev and release. Prints the seeds that differ.

set -eu
cd "$(dirname "$0")/../.."
seeds=${1:-200}
first=${2:-1}
mkdir -p build/log
for preset in dev release; do
  "build/$preset/tests/simulation/simulation" --first "$first" --seeds "$seeds" --hashes --quiet |
    sed '$d' >"build/log/traces-$preset"
done
# Each line has the words "seed NUMBER trace HASH" of both builds.
different=$(paste build/log/traces-dev build/log/traces-release | awk '$4 != $8 { print $2 }')
compared=$(wc -l <build/log/traces-release)
echo "$compared seeds compared, different:" $different
[ -z "$different" ]
