# SPDX-License-Identifier: Apache-2.0
#
# Runs the portfile of the port without vcpkg. A portfile is a CMake script, and this script defines
# the functions that our portfile calls. Then it makes vcpkg's checks of the installed layout, and
# builds and runs a consumer in Debug and Release.
#
#   cmake -D LINKAGE=static|dynamic [-D FEATURES=apps;cuda;hdf5] -D WORK=folder
#     [-D PORT_FOLDER=cmake/port] [-D SETTINGS=-DCMAKE_...;...] [-D CONSUMER=OFF]
#     [-D DOWNLOADS=folder] -P cmake/run_portfile.cmake
#
# SETTINGS apply to both builds of the port, like the settings of a triplet. DOWNLOADS has the
# archive of a port that is filled in for a release. The port of the repository builds this tree.
#
# It cannot verify that the ports of the dependencies match.

cmake_minimum_required(VERSION 3.23)

get_filename_component(root ${CMAKE_CURRENT_LIST_DIR} DIRECTORY)
if(NOT DEFINED PORT_FOLDER)
  set(PORT_FOLDER ${CMAKE_CURRENT_LIST_DIR}/port)
endif()

function(run)
  execute_process(COMMAND ${ARGN} RESULT_VARIABLE failed OUTPUT_VARIABLE output
    ERROR_VARIABLE output)
  if(failed)
    list(JOIN ARGN " " command)
    message(FATAL_ERROR "${command}\n${output}")
  endif()
  set(output "${output}" PARENT_SCOPE)
endfunction()

# --- The variables that vcpkg sets.

file(READ ${PORT_FOLDER}/vcpkg.json manifest)
string(JSON PORT GET "${manifest}" name)
string(JSON VERSION GET "${manifest}" version)
set(VCPKG_LIBRARY_LINKAGE ${LINKAGE})
set(CURRENT_BUILDTREES_DIR ${WORK}/buildtrees)
set(CURRENT_PACKAGES_DIR ${WORK}/packages)
set(CURRENT_PORT_DIR ${PORT_FOLDER})
list(PREPEND FEATURES core)

# --- The functions that our portfile calls.

function(vcpkg_from_github)
  cmake_parse_arguments(arg "" "OUT_SOURCE_PATH;REPO;REF;SHA512;HEAD_REF" "" ${ARGN})
  if(NOT arg_REPO MATCHES "^[^/]+/[^/]+$" OR NOT arg_REF STREQUAL "v${VERSION}"
      OR NOT arg_SHA512 MATCHES "^(0|[0-9a-f]+)$")
    message(FATAL_ERROR "vcpkg_from_github: ${ARGN}")
  endif()
  set(${arg_OUT_SOURCE_PATH} ${root} PARENT_SCOPE)
endfunction()

# The archive of a release.
function(vcpkg_download_distfile variable)
  cmake_parse_arguments(arg "" "FILENAME;SHA512" "URLS" ${ARGN})
  get_filename_component(name ${arg_URLS} NAME)
  file(SHA512 ${DOWNLOADS}/${name} found)
  if(NOT found STREQUAL arg_SHA512)
    message(FATAL_ERROR "${name} has the SHA512 ${found}, and the port expects ${arg_SHA512}")
  endif()
  set(${variable} ${DOWNLOADS}/${name} PARENT_SCOPE)
endfunction()

function(vcpkg_extract_source_archive variable)
  cmake_parse_arguments(arg "" "ARCHIVE" "" ${ARGN})
  file(ARCHIVE_EXTRACT INPUT ${arg_ARCHIVE} DESTINATION ${CURRENT_BUILDTREES_DIR}/src)
  file(GLOB folder ${CURRENT_BUILDTREES_DIR}/src/*)
  set(${variable} ${folder} PARENT_SCOPE)
endfunction()

function(vcpkg_check_features)
  cmake_parse_arguments(arg "" "OUT_FEATURE_OPTIONS" "FEATURES" ${ARGN})
  set(options "")
  while(arg_FEATURES)
    list(POP_FRONT arg_FEATURES feature option)
    if(feature IN_LIST FEATURES)
      list(APPEND options -D${option}=ON)
    else()
      list(APPEND options -D${option}=OFF)
    endif()
  endwhile()
  set(${arg_OUT_FEATURE_OPTIONS} ${options} PARENT_SCOPE)
endfunction()

function(vcpkg_cmake_configure)
  cmake_parse_arguments(arg "" "SOURCE_PATH" "OPTIONS;OPTIONS_DEBUG" ${ARGN})
  if(VCPKG_LIBRARY_LINKAGE STREQUAL dynamic)
    set(shared ON)
  else()
    set(shared OFF)
  endif()
  foreach(build rel dbg)
    if(build STREQUAL rel)
      set(options -DCMAKE_BUILD_TYPE=Release -DCMAKE_INSTALL_PREFIX=${CURRENT_PACKAGES_DIR})
    else()
      set(options -DCMAKE_BUILD_TYPE=Debug -DCMAKE_INSTALL_PREFIX=${CURRENT_PACKAGES_DIR}/debug
        ${arg_OPTIONS_DEBUG})
    endif()
    run(${CMAKE_COMMAND} -S ${arg_SOURCE_PATH} -B ${CURRENT_BUILDTREES_DIR}/${build} -G Ninja
      -DBUILD_SHARED_LIBS=${shared} -DCMAKE_INSTALL_LIBDIR=lib ${SETTINGS}
      ${arg_OPTIONS} ${options})
  endforeach()
endfunction()

# The port cuda defines this function.
function(vcpkg_find_cuda)
  cmake_parse_arguments(arg "" "OUT_CUDA_TOOLKIT_ROOT" "" ${ARGN})
  find_program(NVCC nvcc HINTS ENV CUDA_PATH /usr/local/cuda PATH_SUFFIXES bin REQUIRED)
  get_filename_component(folder ${NVCC} REALPATH)
  get_filename_component(folder ${folder} DIRECTORY)
  get_filename_component(folder ${folder} DIRECTORY)
  set(${arg_OUT_CUDA_TOOLKIT_ROOT} ${folder} PARENT_SCOPE)
endfunction()

function(vcpkg_cmake_install)
  foreach(build dbg rel)
    run(${CMAKE_COMMAND} --build ${CURRENT_BUILDTREES_DIR}/${build} --target install)
  endforeach()
endfunction()

# Moves the files of the package to share/, and the imported locations of the debug build next to
# those of the release build. Corrects the number of folders between them and the prefix.
function(vcpkg_cmake_config_fixup)
  cmake_parse_arguments(arg "" "CONFIG_PATH;PACKAGE_NAME" "" ${ARGN})
  set(release ${CURRENT_PACKAGES_DIR}/${arg_CONFIG_PATH})
  set(debug ${CURRENT_PACKAGES_DIR}/debug/${arg_CONFIG_PATH})
  set(share ${CURRENT_PACKAGES_DIR}/share/${PORT})
  file(GLOB files ${release}/*)
  file(COPY ${files} DESTINATION ${share})
  file(GLOB files ${debug}/*-debug.cmake)
  foreach(file IN LISTS files)
    get_filename_component(name ${file} NAME)
    file(READ ${file} text)
    string(REPLACE "{_IMPORT_PREFIX}/" "{_IMPORT_PREFIX}/debug/" text "${text}")
    string(REPLACE "/debug/include" "/include" text "${text}")
    file(WRITE ${share}/${name} "${text}")
  endforeach()
  set(up "get_filename_component(_IMPORT_PREFIX \"\${_IMPORT_PREFIX}\" PATH)\n")
  file(GLOB files ${share}/*.cmake)
  foreach(file IN LISTS files)
    file(READ ${file} text)
    string(REPLACE "${up}${up}${up}" "${up}${up}" text "${text}")
    string(REPLACE "/../../../\"" "/../../\"" text "${text}")
    file(WRITE ${file} "${text}")
  endforeach()
  file(REMOVE_RECURSE ${release} ${debug})
  foreach(folder lib/cmake debug/lib/cmake)
    file(GLOB left ${CURRENT_PACKAGES_DIR}/${folder}/*)
    if(NOT left)
      file(REMOVE_RECURSE ${CURRENT_PACKAGES_DIR}/${folder})
    endif()
  endforeach()
endfunction()

function(vcpkg_fixup_pkgconfig)
  foreach(folder lib debug/lib)
    file(GLOB packages ${CURRENT_PACKAGES_DIR}/${folder}/pkgconfig/*.pc)
    foreach(package IN LISTS packages)
      get_filename_component(package ${package} NAME_WLE)
      run(${CMAKE_COMMAND} -E env PKG_CONFIG_PATH=${CURRENT_PACKAGES_DIR}/${folder}/pkgconfig
        pkg-config --exists --print-errors ${package})
    endforeach()
  endforeach()
endfunction()

function(vcpkg_copy_tools)
  cmake_parse_arguments(arg "AUTO_CLEAN" "" "TOOL_NAMES" ${ARGN})
  foreach(tool ${arg_TOOL_NAMES})
    file(COPY ${CURRENT_PACKAGES_DIR}/bin/${tool}
      DESTINATION ${CURRENT_PACKAGES_DIR}/tools/${PORT})
  endforeach()
  if(arg_AUTO_CLEAN)
    file(REMOVE_RECURSE ${CURRENT_PACKAGES_DIR}/bin ${CURRENT_PACKAGES_DIR}/debug/bin)
  endif()
endfunction()

function(vcpkg_install_copyright)
  cmake_parse_arguments(arg "" "" "FILE_LIST" ${ARGN})
  file(READ ${arg_FILE_LIST} text)
  file(WRITE ${CURRENT_PACKAGES_DIR}/share/${PORT}/copyright "${text}")
endfunction()

# --- The run.

file(REMOVE_RECURSE ${WORK})
include(${PORT_FOLDER}/portfile.cmake)

# --- The checks that vcpkg makes after a build.

set(wrong "")
foreach(component cuda hdf5 remote)
  foreach(file include/ringload/${component}.hpp lib/pkgconfig/ringload-${component}.pc
      share/${PORT}/ringload-${component}-targets.cmake)
    if(component IN_LIST FEATURES AND NOT EXISTS ${CURRENT_PACKAGES_DIR}/${file})
      string(APPEND wrong "\n  ${file} is not there")
    elseif(NOT component IN_LIST FEATURES AND EXISTS ${CURRENT_PACKAGES_DIR}/${file})
      string(APPEND wrong "\n  ${file} is there, and nobody asked for it")
    endif()
  endforeach()
endforeach()
foreach(folder debug/include debug/share lib/cmake debug/lib/cmake bin debug/bin)
  if(EXISTS ${CURRENT_PACKAGES_DIR}/${folder})
    string(APPEND wrong "\n  ${folder} is left over")
  endif()
endforeach()
foreach(file share/${PORT}/copyright share/${PORT}/usage share/${PORT}/${PORT}-config.cmake
    share/${PORT}/${PORT}-config-version.cmake include/ringload/ringload.hpp
    include/ringload/export.hpp lib/pkgconfig/ringload.pc debug/lib/pkgconfig/ringload.pc)
  if(NOT EXISTS ${CURRENT_PACKAGES_DIR}/${file})
    string(APPEND wrong "\n  ${file} is not there")
  endif()
endforeach()
file(GLOB_RECURSE everything LIST_DIRECTORIES ON ${CURRENT_PACKAGES_DIR}/*)
foreach(path IN LISTS everything)
  if(IS_DIRECTORY ${path})
    file(GLOB inside ${path}/*)
    if(NOT inside)
      string(APPEND wrong "\n  ${path} is empty")
    endif()
  elseif(path MATCHES "\\.(a|so[.0-9]*)$")
    if((LINKAGE STREQUAL "static" AND path MATCHES "\\.so")
        OR (LINKAGE STREQUAL "dynamic" AND path MATCHES "\\.a$"))
      string(APPEND wrong "\n  ${path}: ${LINKAGE} was asked for")
    endif()
  elseif(path MATCHES "\\.(cmake|pc|hpp)$")
    file(STRINGS ${path} lines REGEX "${WORK}|${root}")
    if(lines)
      string(APPEND wrong "\n  ${path} names a path of the build: ${lines}")
    endif()
  endif()
endforeach()
foreach(folder lib debug/lib)
  file(GLOB libraries ${CURRENT_PACKAGES_DIR}/${folder}/libringload.*)
  if(NOT libraries)
    string(APPEND wrong "\n  no library in ${folder}")
  endif()
endforeach()
if(wrong)
  message(FATAL_ERROR "the portfile's package is not as it should be:${wrong}")
endif()

# --- A consumer.

if(NOT DEFINED CONSUMER OR CONSUMER)
  foreach(build_type Debug Release)
    set(cuda OFF)
    if("cuda" IN_LIST FEATURES)
      set(cuda ON)
    endif()
    set(hdf5 OFF)
    if("hdf5" IN_LIST FEATURES)
      set(hdf5 ON)
    endif()
    set(remote OFF)
    if("remote" IN_LIST FEATURES)
      set(remote ON)
    endif()
    run(${CMAKE_COMMAND} -DWAY=find_package -DCUDA=${cuda} -DHDF5=${hdf5} -DREMOTE=${remote}
      -DSOURCE=${root} -DPREFIX=${CURRENT_PACKAGES_DIR}
      -DWORK=${WORK}/consumer-${build_type} -DBUILD_TYPE=${build_type}
      -P ${root}/tests/consumer/consume.cmake)
  endforeach()
endif()
