# SPDX-License-Identifier: Apache-2.0
#
# Writes one source with several test files, each in a separate namespace, so that their helpers may
# have the same names. All their #include lines come first, outside of the namespaces. So the
# repeated includes in the files have no effect.
#
#   cmake -D OUTPUT=file -D "SOURCES=a.cpp;b.cpp" -P join_sources.cmake

cmake_minimum_required(VERSION 3.23)

set(includes "")
set(bodies "")
set(number 0)
foreach(source IN LISTS SOURCES)
  get_filename_component(folder ${source} DIRECTORY)
  file(STRINGS ${source} lines REGEX "^ *#")
  foreach(line IN LISTS lines)
    if(line MATCHES "^#include <.*>$")
      list(APPEND includes "${line}")
    elseif(NOT line MATCHES "^#include \"(.*)\"$")
      message(FATAL_ERROR "${source}: no directive but #include may stand in a file that is "
        "compiled with others: ${line}\nGive the file a program of its own in CMakeLists.txt.")
    elseif(EXISTS ${folder}/${CMAKE_MATCH_1})
      list(APPEND includes "#include \"${folder}/${CMAKE_MATCH_1}\"")
    else()
      list(APPEND includes "${line}")
    endif()
  endforeach()
  math(EXPR number "${number} + 1")
  string(APPEND bodies "namespace test_file_${number} {\n#include \"${source}\"\n}\n")
endforeach()
list(REMOVE_DUPLICATES includes)
list(JOIN includes "\n" includes)
file(CONFIGURE OUTPUT ${OUTPUT} CONTENT "${includes}\n\n${bodies}" @ONLY)
