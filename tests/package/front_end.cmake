# SPDX-License-Identifier: Apache-2.0
#
# Compiles each source of the library alone, as a build that does not join sources. In a joined
# source, a missing include may be hidden by the previous file. Every template is instantiated and
# every warning is an error, but no code is generated.
#
#   cmake -D SOURCE=tree -D WORK=folder -D COMPILER=program -D FLAGS=text -P front_end.cmake

cmake_minimum_required(VERSION 3.23)

file(REMOVE_RECURSE ${WORK})
# The rules for objects and archives produce nothing.
set(read "<CMAKE_CXX_COMPILER> <DEFINES> <INCLUDES> <FLAGS> -fsyntax-only <SOURCE>")
execute_process(
  COMMAND ${CMAKE_COMMAND} -S ${SOURCE} -B ${WORK} -G Ninja
    -DCMAKE_CXX_COMPILER=${COMPILER} -DCMAKE_CXX_COMPILER_LAUNCHER= -DCMAKE_CXX_FLAGS=${FLAGS}
    -DCMAKE_BUILD_TYPE=Debug -DCMAKE_CXX_FLAGS_DEBUG= -DCMAKE_UNITY_BUILD=OFF
    "-DCMAKE_CXX_COMPILE_OBJECT=${read}"
    "-DCMAKE_CXX_ARCHIVE_CREATE=<CMAKE_COMMAND> -E true"
    "-DCMAKE_CXX_ARCHIVE_FINISH=<CMAKE_COMMAND> -E true"
    -DRINGLOAD_APPS=OFF -DRINGLOAD_BENCH=OFF -DRINGLOAD_CUDA=OFF -DRINGLOAD_EXAMPLES=OFF
    -DRINGLOAD_INSTALL=OFF -DRINGLOAD_MPI=OFF -DRINGLOAD_TESTS=OFF
  COMMAND_ERROR_IS_FATAL ANY)
execute_process(COMMAND ${CMAKE_COMMAND} --build ${WORK} --target ringload
  COMMAND_ERROR_IS_FATAL ANY)
