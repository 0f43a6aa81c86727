# SPDX-License-Identifier: Apache-2.0
#
# Finds ISA-L, which lacks a CMake package in some distributions, and creates the target isal::isal.
# pkg-config provides only hints for the search on disk.

find_package(PkgConfig QUIET)
if(PkgConfig_FOUND)
  pkg_check_modules(PC_ISAL QUIET libisal)
endif()

find_path(ISAL_INCLUDE_DIR isa-l/igzip_lib.h HINTS ${PC_ISAL_INCLUDE_DIRS})
find_library(ISAL_LIBRARY isal HINTS ${PC_ISAL_LIBRARY_DIRS})
mark_as_advanced(ISAL_INCLUDE_DIR ISAL_LIBRARY)

include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(isal REQUIRED_VARS ISAL_LIBRARY ISAL_INCLUDE_DIR)

if(isal_FOUND AND NOT TARGET isal::isal)
  add_library(isal::isal UNKNOWN IMPORTED)
  set_target_properties(isal::isal PROPERTIES
    IMPORTED_LOCATION ${ISAL_LIBRARY}
    INTERFACE_INCLUDE_DIRECTORIES ${ISAL_INCLUDE_DIR})
endif()
