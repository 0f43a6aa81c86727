# SPDX-License-Identifier: Apache-2.0
#
# versions/ makes the repository a vcpkg registry: it names the port by its git tree. The newest
# version there is the project's, and its tree is that of cmake/port, as it is now: a port that was
# changed needs its line renewed, before the release here and by a port-version after it.
#
#   cmake -D WORK=folder -P tests/package/registry.cmake

cmake_minimum_required(VERSION 3.23)

get_filename_component(root ${CMAKE_CURRENT_LIST_DIR}/../.. ABSOLUTE)

file(READ ${root}/cmake/port/vcpkg.json port)
file(READ ${root}/versions/baseline.json baseline)
file(READ ${root}/versions/r-/ringload.json versions)
string(JSON version GET "${port}" version)
string(JSON port_version ERROR_VARIABLE none GET "${port}" port-version)
if(none)
  set(port_version 0)
endif()
string(JSON newest GET "${versions}" versions 0 version)
string(JSON newest_port GET "${versions}" versions 0 port-version)
string(JSON base GET "${baseline}" default ringload baseline)
string(JSON base_port GET "${baseline}" default ringload port-version)
string(JSON named_tree GET "${versions}" versions 0 git-tree)
foreach(said "${newest}#${newest_port}" "${base}#${base_port}")
  if(NOT said STREQUAL "${version}#${port_version}")
    message(FATAL_ERROR "versions/ says ${said}, the port ${version}#${port_version}")
  endif()
endforeach()

# Git computes the tree in a separate index and object store.
find_program(git git)
if(NOT git)
  message("skipped: no git, so the port's tree cannot be computed")
  return()
endif()
file(REMOVE_RECURSE ${WORK})
file(MAKE_DIRECTORY ${WORK})
file(COPY ${root}/cmake/port DESTINATION ${WORK})
foreach(command "init;--quiet" "add;port" "write-tree;--prefix=port/")
  execute_process(COMMAND ${git} --git-dir=${WORK}/.git --work-tree=${WORK} ${command}
    WORKING_DIRECTORY ${WORK} OUTPUT_VARIABLE tree OUTPUT_STRIP_TRAILING_WHITESPACE
    COMMAND_ERROR_IS_FATAL ANY)
endforeach()
if(NOT tree STREQUAL named_tree)
  message(FATAL_ERROR "cmake/port is the tree ${tree}, and versions/r-/ringload.json names "
    "${named_tree}")
endif()
