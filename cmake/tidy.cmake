# SPDX-License-Identifier: Apache-2.0
#
# The habits of this tree that a machine can keep: which folder may include which, one SPDX line,
# and a few limits on the text.
#
#   cmake [-D ROOT=tree] -P cmake/tidy.cmake
#
# Prints a line for each problem, and fails if there was one.

cmake_minimum_required(VERSION 3.23)

if(NOT DEFINED ROOT)
  get_filename_component(ROOT ${CMAKE_CURRENT_LIST_DIR} DIRECTORY)
endif()

set(lines_max 500)
set(columns_max 100)
set(marks_of_unfinished_work "TOD[O]|FIXM[E]|XX[X]")  # Written so that this line is none.

# --- Allowed includes, from the lowest floor to the highest. A room of engine/ may include itself
# and:
set(base_may "")
set(base/numeric_may base)
set(formats/text_may base base/numeric)
set(formats/codec_may base)
set(formats_may base base/numeric formats/text formats/codec)
set(formats/safetensors_may base base/numeric formats formats/text formats/codec)
set(formats/gguf_may base base/numeric formats formats/text formats/codec)
set(formats/onnx_may base base/numeric formats formats/text formats/codec)
set(formats/zip_may base base/numeric formats formats/text formats/codec)
set(formats/npy_may base base/numeric formats formats/text formats/codec formats/zip)
set(formats/pytorch_may base base/numeric formats formats/text formats/codec formats/zip)
set(formats/zt_may base base/numeric formats formats/text formats/codec)
set(formats/hdf5_may base base/numeric formats formats/text formats/codec)
set(plan_may base base/numeric)
set(io/ring_may base)
set(io_may base io/ring)
set(io/writers_may base io io/ring)
set(device_may base base/numeric plan)
set(device/cuda_may base base/numeric plan device)
set(catalog_may
  base base/numeric formats formats/text formats/codec formats/safetensors formats/gguf
  formats/onnx formats/zip formats/npy formats/pytorch formats/zt io)
set(runtime_may base base/numeric plan io io/ring io/writers device catalog)
set(request_may base base/numeric formats formats/text formats/codec plan device catalog)
set(remote/http_may base catalog)
set(remote/hub_may base formats formats/text catalog remote/http)
set(remote/s3_may base catalog formats formats/text remote/http)
set(remote/cache_may base formats catalog io remote/http remote/hub)
set(remote_may base catalog io remote/http remote/hub remote/s3 remote/cache)
set(load_may
  base base/numeric formats formats/text formats/codec plan io device catalog runtime
  request)
set(save/zt_may base base/numeric formats/codec formats formats/zt io io/ring io/writers)
set(save_may
  base base/numeric formats formats/text formats/codec formats/safetensors formats/zt io io/ring
  io/writers device catalog runtime request save/zt)
set(api_may base catalog runtime request load save)
set(keeper_may base base/numeric device runtime load)
set(ranks_may base device catalog runtime load)
set(delta_may
  base base/numeric formats formats/codec formats/zt device catalog runtime request load io)
set(ranks/nccl_may base device/cuda)
set(c_may "")

# --- Allowed external headers: a pattern of <...> headers, and the folders of engine/ that may
# include them. All other top folders except include/ may include them too.
set(outside asio liburing cuda hdf5 mpi)
set(asio_headers "^boost/asio")
set(asio_folders
  io io/ring io/writers device device/cuda catalog runtime load save save/zt api c
  keeper remote remote/http remote/cache ranks delta)
set(liburing_headers "^liburing")
set(liburing_folders io/ring)
set(cuda_headers "^(cuda|driver_types|nvtx)")
set(cuda_folders device/cuda ranks/nccl)
set(hdf5_headers "^(hdf5|H5)")
set(hdf5_folders formats/hdf5)
set(mpi_headers "^mpi\\.h$")
set(mpi_folders ranks)

set(wrong 0)
function(complain place what)
  message("${place}: ${what}")
  math(EXPR count "${wrong} + 1")
  set(wrong ${count} PARENT_SCOPE)
endfunction()

# check_include(FILE LINE HEADER QUOTED): one #include line of a file named relative to ROOT.
function(check_include file line header quoted)
  set(here "${file}:${line}")

  if(header MATCHES "^ringload/" AND quoted)
    complain(${here} "public headers are included as <${header}>")
  endif()
  if(header MATCHES "\\.\\./")
    complain(${here} "engine headers are included from the root of engine/: ${header}")
  endif()
  if(file MATCHES "\\.cuh?$" AND header MATCHES "^boost/asio")
    complain(${here} "no Boost.Asio in a .cu file")
  endif()

  if(file MATCHES "^engine/")
    get_filename_component(folder ${file} DIRECTORY)
    string(REGEX REPLACE "^engine/?" "" folder "${folder}")
    if(NOT DEFINED ${folder}_may)
      complain(${here} "cmake/tidy.cmake does not know the room engine/${folder}")
    elseif(quoted)
      get_filename_component(target "${header}" DIRECTORY)
      set(allowed ${folder} ${${folder}_may})
      if(NOT target IN_LIST allowed)
        complain(${here} "engine/${folder} may not include \"${header}\"")
      endif()
    endif()
    foreach(world ${outside})
      if(header MATCHES "${${world}_headers}" AND NOT folder IN_LIST ${world}_folders)
        complain(${here} "engine/${folder} may not include <${header}>, as ${${world}_folders} may")
      endif()
    endforeach()

  elseif(file MATCHES "^include/")
    if(quoted)
      complain(${here} "a public header includes only <...>: \"${header}\"")
    endif()
    if(header MATCHES "${liburing_headers}"
        OR (header MATCHES "${cuda_headers}" AND NOT file STREQUAL "include/ringload/cuda.hpp"))
      complain(${here} "a public header may not include <${header}>")
    endif()

  elseif(file MATCHES "^(apps/(ringload|model-server|examples)|tests/(consumer|compile_fail))/")
    # These folders may include only public headers. A quoted header is in the same folder.
    if(quoted AND header MATCHES "/")
      complain(${here} "only <ringload/...> here, no engine header: \"${header}\"")
    endif()
    if(header MATCHES "^ringload/detail/")
      complain(${here} "<${header}> is no part of the public face")
    endif()
  endif()
  set(wrong ${wrong} PARENT_SCOPE)
endfunction()

function(check_file file)
  file(READ ${ROOT}/${file} text)

  # The SPDX line comes first, or right after the line that names the interpreter.
  string(REGEX REPLACE "^#![^\n]*\n" "" body "${text}")
  if(NOT body MATCHES "^(//|#) SPDX-License-Identifier: Apache-2\\.0\n")
    complain(${file} "does not begin with its SPDX line")
  endif()
  if(text MATCHES "[^\n]$")
    complain(${file} "the last line has no end")
  endif()

  # A CMake list would change these four characters. Each is replaced by one character, so that
  # lengths stay the same.
  string(REPLACE ";" "," text "${text}")
  string(REPLACE "[" "(" text "${text}")
  string(REPLACE "]" ")" text "${text}")
  string(REPLACE "\\" "/" text "${text}")
  string(REGEX REPLACE "\n$" "" text "${text}")
  string(REPLACE "\n" ";" lines "${text}")

  list(LENGTH lines count)
  if(count GREATER lines_max)
    complain(${file} "${count} lines, and ${lines_max} are the limit")
  endif()

  # Most lines need no check, so the whole text is searched first. This saves time in every test
  # run.
  if(text MATCHES "\t|\r|${marks_of_unfinished_work}")
    set(marks ON)
  else()
    set(marks OFF)
  endif()
  set(number 0)
  foreach(line IN LISTS lines)
    math(EXPR number "${number} + 1")
    string(LENGTH "${line}" length)
    if(length GREATER columns_max)
      complain(${file}:${number} "${length} columns, and ${columns_max} are the limit")
    endif()
    if(marks)
      if(line MATCHES "\t|\r")
        complain(${file}:${number} "a tab or a carriage return")
      endif()
      if(line MATCHES "(^|[^A-Za-z])(${marks_of_unfinished_work})([^A-Za-z]|$)")
        complain(${file}:${number} "work that is left belongs in an issue: ${CMAKE_MATCH_2}")
      endif()
    endif()
    if(line MATCHES "^ *# *include *\"([^\"]+)\"")
      check_include(${file} ${number} ${CMAKE_MATCH_1} ON)
    elseif(line MATCHES "^ *# *include *<([^>]+)>")
      check_include(${file} ${number} ${CMAKE_MATCH_1} OFF)
    endif()
  endforeach()
  set(wrong ${wrong} PARENT_SCOPE)
endfunction()

set(files "")
foreach(folder include engine apps tests bench cmake)
  file(GLOB_RECURSE found LIST_DIRECTORIES OFF RELATIVE ${ROOT}
    ${ROOT}/${folder}/*.cpp ${ROOT}/${folder}/*.hpp ${ROOT}/${folder}/*.cu ${ROOT}/${folder}/*.cuh
    ${ROOT}/${folder}/*.cmake ${ROOT}/${folder}/CMakeLists.txt ${ROOT}/${folder}/*.sh)
  list(APPEND files ${found})
endforeach()
foreach(single CMakeLists.txt dev .ci/run)
  if(EXISTS ${ROOT}/${single})
    list(APPEND files ${single})
  endif()
endforeach()

# A tree without files would pass every check.
if(NOT files)
  message(FATAL_ERROR "tidy: no source file under ${ROOT}")
endif()

foreach(file IN LISTS files)
  check_file(${file})
endforeach()

# --- Pure files have tests. The tables are in pure_tests.cmake.
include(${CMAKE_CURRENT_LIST_DIR}/pure_tests.cmake)
file(GLOB_RECURSE tests RELATIVE ${ROOT} ${ROOT}/tests/*_test.cpp)
set(excused "")
foreach(row IN LISTS tested_elsewhere)
  string(REGEX REPLACE "[: ]+" ";" row "${row}")
  list(POP_FRONT row test)
  list(APPEND excused ${row})
  # A small tree of tidy_test has no such file.
  if(EXISTS ${ROOT}/engine/README.md AND NOT "tests/${test}.cpp" IN_LIST tests)
    complain(cmake/pure_tests.cmake "tests/${test}.cpp does not exist")
  endif()
endforeach()
foreach(file IN LISTS files)
  if(NOT file MATCHES "^engine/((.+)/([^/]+))\\.cpp$")
    continue()
  endif()
  set(name ${CMAKE_MATCH_1})
  set(stem ${CMAKE_MATCH_3})
  if(NOT CMAKE_MATCH_2 IN_LIST pure_rooms AND NOT name IN_LIST pure_files)
    continue()
  endif()
  string(REGEX REPLACE "/.*" "" room "${name}")
  set(own ${tests})
  list(FILTER own INCLUDE REGEX "^tests/${room}/(.*/)?${stem}_test\\.cpp$")
  if("${own}" STREQUAL "" AND NOT name IN_LIST excused)
    complain(${file} "a pure file without a test: expected tests/${room}/${stem}_test.cpp")
  elseif(NOT "${own}" STREQUAL "" AND name IN_LIST excused)
    complain(cmake/pure_tests.cmake "${name} has a test of its own: remove the entry")
  endif()
  list(REMOVE_ITEM excused ${name})
endforeach()
if(EXISTS ${ROOT}/engine/README.md AND excused)
  complain(cmake/pure_tests.cmake "no such files: ${excused}")
endif()

list(LENGTH files count)
if(wrong GREATER 0)
  message(FATAL_ERROR "tidy: ${wrong} complaints about ${count} files")
endif()
message("tidy: ${count} files, nothing to complain about")
