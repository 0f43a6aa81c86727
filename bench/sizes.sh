#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# bench/sizes.sh BUILD FOLDER [REPEAT [SIZE...]]: whether a load takes time in proportion to its
# bytes. Makes a checkpoint of each size in FOLDER, by default of 64M to 16G, and loads each from
# the drive REPEAT times, in turns with plain direct reads of the same file into populated memory.
# Prints medians, and what the load had pinned. A load of which a byte came from the page cache is
# refused. The largest size has to fit in memory.

set -eu
build=$1
folder=$2
repeat=${3:-7}
if [ $# -gt 3 ]; then shift 3; else set -- 64M 256M 1G 4G 16G; fi
ringload=$build/apps/ringload/ringload
uring_bench=$build/apps/uring-bench/uring-bench

work=$(mktemp -d "$folder/sizes-XXXXXX")
trap 'rm -rf "$work"' EXIT
trap 'exit 130' INT TERM

# number NAME: of a JSON object on standard input.
number() {
  sed -n "s/.*\"$1\": \\([0-9.e+-]*\\)[,}].*/\\1/p" | head -n 1
}

# median FILE
median() {
  sort -n "$1" | awk '{ s[NR] = $1 }
    END { print (s[int((NR + 1) / 2)] + s[int(NR / 2) + 1]) / 2 }'
}

for size in "$@"; do
  "$ringload" make "$work/$size.safetensors" --bytes "$size" --no-progress >/dev/null
done

for turn in $(seq "$repeat"); do
  for size in "$@"; do
    file=$work/$size.safetensors
    bytes=$(wc -c <"$file")
    "$uring_bench" run "$file" --into populated --bytes "$bytes" --seconds 3600 \
      --block 2M --depth 8 --json >"$work/report"
    number seconds <"$work/report" >>"$work/$size.plain"
    dd if="$file" iflag=nocache count=0 status=none
    "$ringload" load "$file" --json --no-progress >"$work/report"
    if ! grep -q '"buffered": 0[,}]' "$work/report"; then
      echo "sizes.sh: a load that should be cold read from the page cache" >&2
      exit 1
    fi
    number seconds <"$work/report" >>"$work/$size.load"
    number pinned_bytes_peak <"$work/report" >"$work/$size.pinned"
  done
done

echo "| size | plain reads | load | of them | s per GiB | pinned |"
echo "|---|---|---|---|---|---|"
for size in "$@"; do
  bytes=$(wc -c <"$work/$size.safetensors")
  plain=$(median "$work/$size.plain")
  load=$(median "$work/$size.load")
  pinned=$(cat "$work/$size.pinned")
  awk -v size="$size" -v bytes="$bytes" -v plain="$plain" -v load="$load" -v pinned="$pinned" \
    'BEGIN { printf "| %s | %.3f s | %.3f s | %.3f | %.3f | %d |\n", size, plain, load,
             plain / load, load / bytes * 1073741824, pinned }'
done
