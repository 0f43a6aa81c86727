# SPDX-License-Identifier: Apache-2.0
#
# doxygen_filter.sh HEADER: the header as Doxygen should read it. A comment behind a member
# documents that member: "bytes;  // Of all" becomes "bytes;  ///< Of all". What we specialise for
# Boost is not shown: Doxygen does not know the template.

sed -e 's|^\( *[A-Za-z_].*[,;]\) *// \(.*\)|\1  ///< \2|' -e '/^template <>$/d' \
  -e '/^struct boost::/d' "$1"
