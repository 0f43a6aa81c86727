#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# bench/verify.sh RINGLOAD FILE [REPEAT]: what checking each tensor costs a load of FILE into host
# memory. Loads without a check, with CRC-32C and with SHA-256 take turns, first cold (read from the
# drive), then warm (from the page cache); prints medians. A load that came another way than it
# should have is refused. Checksum lists are written beside FILE and removed.

set -eu
ringload=$1
file=$2
repeat=${3:-5}

work=$(mktemp -d "$(dirname "$file")/verify-XXXXXX")
trap 'rm -rf "$work"' EXIT
for algorithm in crc32c sha256; do
  "$ringload" sum "$file" --no-progress --algorithm $algorithm --checksums "$work/$algorithm"
done

cold() {
  dd if="$file" iflag=nocache count=0 status=none
}
warm() {
  cat "$file" >/dev/null
}

# once NAME [OPTION...]: one load, its seconds appended to $work/NAME. The route that the bytes took
# says whether the page cache had them.
once() {
  name=$1
  shift
  $state
  "$ringload" load "$file" --json --no-progress "$@" >"$work/report"
  case $state in cold) other=buffered ;; warm) other=direct ;; esac
  if ! grep -q "\"$other\": 0[,}]" "$work/report"; then
    echo "verify.sh: a load that should be $state read $other" >&2
    exit 1
  fi
  sed -n 's/.*"seconds": \([0-9.e-]*\),.*/\1/p' "$work/report" >>"$work/$name"
}

bytes=$(wc -c <"$file")
for state in cold warm; do
  rm -f "$work"/*.s
  for turn in $(seq "$repeat"); do
    once none.s
    once crc32c.s --verify "$work/crc32c"
    once sha256.s --verify "$work/sha256"
  done
  for name in none crc32c sha256; do
    sort -n "$work/$name.s" | awk -v name="$state, $name" -v bytes="$bytes" '
      { s[NR] = $1 }
      END {
        m = (s[int((NR + 1) / 2)] + s[int(NR / 2) + 1]) / 2
        printf "%-14s %.3f s, %.2f GB/s; %.3f .. %.3f s of %d\n", name, m, bytes / m / 1e9, s[1],
          s[NR], NR
      }'
  done
done
