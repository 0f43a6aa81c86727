# SPDX-License-Identifier: Apache-2.0
#
# Finds libhdf5, the C library without MPI, and creates the target libhdf5::libhdf5. HDF5's CMake
# package is used if it exists. Debian lacks it and uses different folders. CMake's FindHDF5 would
# run HDF5's compiler wrappers, and needs the language C.

find_package(hdf5 CONFIG QUIET)
set(libhdf5_target "")
foreach(name hdf5::hdf5-shared hdf5::hdf5-static hdf5-shared hdf5-static)
  if(hdf5_FOUND AND NOT libhdf5_target AND TARGET ${name})
    set(libhdf5_target ${name})
  endif()
endforeach()

include(FindPackageHandleStandardArgs)
set(LIBHDF5_PC hdf5)  # What pkg-config calls it.
if(libhdf5_target)
  set(libhdf5_VERSION ${hdf5_VERSION})
  find_package_handle_standard_args(libhdf5
    REQUIRED_VARS libhdf5_target VERSION_VAR libhdf5_VERSION)
  if(libhdf5_FOUND AND NOT TARGET libhdf5::libhdf5)
    add_library(libhdf5::libhdf5 INTERFACE IMPORTED)
    set_target_properties(libhdf5::libhdf5 PROPERTIES INTERFACE_LINK_LIBRARIES ${libhdf5_target})
  endif()
  return()
endif()

# pkg-config provides only hints for the search on disk.
find_package(PkgConfig QUIET)
if(PkgConfig_FOUND)
  pkg_search_module(PC_LIBHDF5 QUIET hdf5-serial hdf5)
  if(PC_LIBHDF5_FOUND)
    set(LIBHDF5_PC ${PC_LIBHDF5_MODULE_NAME})
  endif()
endif()

find_path(LIBHDF5_INCLUDE_DIR H5public.h
  HINTS ${PC_LIBHDF5_INCLUDE_DIRS} PATH_SUFFIXES hdf5/serial)
find_library(LIBHDF5_LIBRARY NAMES hdf5_serial hdf5 HINTS ${PC_LIBHDF5_LIBRARY_DIRS})
mark_as_advanced(LIBHDF5_INCLUDE_DIR LIBHDF5_LIBRARY)
set(libhdf5_VERSION "")
if(LIBHDF5_INCLUDE_DIR)
  file(STRINGS ${LIBHDF5_INCLUDE_DIR}/H5public.h libhdf5_lines
    REGEX "^#define +H5_VERS_(MAJOR|MINOR|RELEASE) ")
  string(REGEX REPLACE "[^;0-9]*H5_VERS_[A-Z]+ +([0-9]+)[^;]*" "\\1" libhdf5_VERSION
    "${libhdf5_lines}")
  string(REGEX REPLACE "#define +" "" libhdf5_VERSION "${libhdf5_VERSION}")
  string(REPLACE ";" "." libhdf5_VERSION "${libhdf5_VERSION}")
endif()
find_package_handle_standard_args(libhdf5
  REQUIRED_VARS LIBHDF5_LIBRARY LIBHDF5_INCLUDE_DIR VERSION_VAR libhdf5_VERSION)

if(libhdf5_FOUND AND NOT TARGET libhdf5::libhdf5)
  add_library(libhdf5::libhdf5 UNKNOWN IMPORTED)
  set_target_properties(libhdf5::libhdf5 PROPERTIES
    IMPORTED_LOCATION ${LIBHDF5_LIBRARY}
    INTERFACE_INCLUDE_DIRECTORIES ${LIBHDF5_INCLUDE_DIR})
endif()
