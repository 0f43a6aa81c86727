# SPDX-License-Identifier: Apache-2.0
#
# links.sh PROGRAM...: none of them loads libhdf5, whose forty libraries would delay every start.

command -v ldd >/dev/null || {
  echo "skipped: there is no ldd"
  exit 77
}
status=0
for program in "$@"; do
  needed=$(ldd "$program") || {
    echo "failed: ldd $program" >&2
    exit 1
  }
  if echo "$needed" | grep libhdf5; then
    echo "failed: $program needs libhdf5 at run time" >&2
    status=1
  fi
done
exit $status
