# SPDX-License-Identifier: Apache-2.0
#
# Finds liburing, which has a pkg-config file but no CMake package, and creates the target
# liburing::liburing. pkg-config provides only hints for the search on disk.

find_package(PkgConfig QUIET)
if(PkgConfig_FOUND)
  pkg_check_modules(PC_LIBURING QUIET liburing)
endif()

find_path(LIBURING_INCLUDE_DIR liburing.h HINTS ${PC_LIBURING_INCLUDE_DIRS})
find_library(LIBURING_LIBRARY uring HINTS ${PC_LIBURING_LIBRARY_DIRS})
mark_as_advanced(LIBURING_INCLUDE_DIR LIBURING_LIBRARY)

# The headers of liburing 2.3 do not contain its version, so without pkg-config it is unknown.
set(liburing_VERSION ${PC_LIBURING_VERSION})
if(LIBURING_INCLUDE_DIR AND EXISTS ${LIBURING_INCLUDE_DIR}/liburing/io_uring_version.h)
  file(STRINGS ${LIBURING_INCLUDE_DIR}/liburing/io_uring_version.h liburing_version_lines
    REGEX "IO_URING_VERSION_(MAJOR|MINOR) +[0-9]+")
  if("${liburing_version_lines}" MATCHES "MAJOR +([0-9]+).*MINOR +([0-9]+)")
    set(liburing_VERSION ${CMAKE_MATCH_1}.${CMAKE_MATCH_2})
  endif()
endif()

include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(liburing
  REQUIRED_VARS LIBURING_LIBRARY LIBURING_INCLUDE_DIR)

if(liburing_FOUND AND NOT TARGET liburing::liburing)
  add_library(liburing::liburing UNKNOWN IMPORTED)
  set_target_properties(liburing::liburing PROPERTIES
    IMPORTED_LOCATION ${LIBURING_LIBRARY}
    INTERFACE_INCLUDE_DIRECTORIES ${LIBURING_INCLUDE_DIR})
endif()
