# SPDX-License-Identifier: Apache-2.0
#
# Tests the folders in the files of pkg-config: cmake -P pc_folders.cmake

cmake_minimum_required(VERSION 3.23)

set(root ${CMAKE_CURRENT_LIST_DIR}/../..)
include(${root}/cmake/pc_folders.cmake)

# expect(LIBDIR INCLUDEDIR LINE...): the first lines of each file, for the prefix /opt/r.
function(expect libdir includedir)
  pc_folders(/opt/r ${libdir} ${includedir})
  file(GLOB templates ${root}/cmake/*.pc.in)
  foreach(template IN LISTS templates)
    file(READ ${template} text)
    string(CONFIGURE "${text}" text @ONLY)
    string(REPLACE "\n" ";" lines "${text}")
    list(SUBLIST lines 0 3 lines)
    if(NOT lines STREQUAL "${ARGN}")
      message(FATAL_ERROR "${template}: ${libdir} and ${includedir}: '${lines}', not '${ARGN}'")
    endif()
  endforeach()
endfunction()

expect(lib include
  "prefix=\${pcfiledir}/../.." "libdir=\${prefix}/lib" "includedir=\${prefix}/include")
expect(lib/x86_64-linux-gnu include "prefix=\${pcfiledir}/../../.."
  "libdir=\${prefix}/lib/x86_64-linux-gnu" "includedir=\${prefix}/include")
expect(/usr/lib64 include prefix=/opt/r libdir=/usr/lib64 "includedir=\${prefix}/include")
expect(lib /usr/include
  "prefix=\${pcfiledir}/../.." "libdir=\${prefix}/lib" includedir=/usr/include)
expect(/usr/lib64 /usr/include prefix=/opt/r libdir=/usr/lib64 includedir=/usr/include)
