# SPDX-License-Identifier: Apache-2.0
#
# doxygen_filter.sh HEADER: the header as Doxygen should read it. A comment behind a member
# documents that member: "bytes;  // Of all" becomes "bytes;  ///< Of all". What we specialise for
# Boost is not shown: Doxygen does not know the template.
#
# Doxygen lists functions only of documented namespaces and files. It does not know that an inline
# namespace is a part of its parent.

sed -e 's|^\( *[A-Za-z_].*[,;]\) *// \(.*\)|\1  ///< \2|' -e '/^template <>$/d' \
  -e '/^struct boost::.*{};$/d' -e '/^\(struct\|class\) boost::/,/^};$/d' \
  -e 's|^  size_t struct_bytes;$|&  ///< The size of the struct: see RINGLOAD_STRUCT.|' \
  -e 's|^namespace ringload::inline v0\(.*\){|namespace ringload\1{|' "$1"
case $1 in
  *.h) echo '/** @file */' ;;
  */ringload.hpp) printf '/// The C++ interface.\nnamespace ringload {}\n' ;;
esac
