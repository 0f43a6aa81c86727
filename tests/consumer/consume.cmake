# SPDX-License-Identifier: Apache-2.0
#
# Builds the program of this folder in one of the ways that the README names, and runs it.
#
#   WAY        find_package, pkg_config, add_subdirectory or fetch_content
#   SOURCE     ringload's source tree
#   WORK       a folder of this test's own
#   PREFIX     for the first two: where ringload is installed
#   CUDA       ON: build and run a program with the component cuda as well
#   C          ON: and one in C, with the component c
#   HDF5       ON: and one with the component hdf5
#   REMOTE     ON: and one with the component remote
#   MPI        ON: and one with the component mpi, but for pkg_config
#   CUDA_LIBDIR  for pkg_config and CUDA: the folder of libcudart_static.a
#   BUILD_TYPE Debug or Release
#   MORE       more arguments for CMake

cmake_minimum_required(VERSION 3.23)

function(run)
  execute_process(COMMAND ${ARGN} RESULT_VARIABLE failed OUTPUT_VARIABLE output
    ERROR_VARIABLE output)
  if(failed)
    list(JOIN ARGN " " command)
    message(FATAL_ERROR "${command}\n${output}")
  endif()
  set(output "${output}" PARENT_SCOPE)
endfunction()

file(REMOVE_RECURSE ${WORK})
file(MAKE_DIRECTORY ${WORK})
set(program ${WORK}/build/consumer)

if(WAY STREQUAL pkg_config)
  file(GLOB_RECURSE pc ${PREFIX}/ringload.pc)
  get_filename_component(pc_folder ${pc} DIRECTORY)
  set(ENV{PKG_CONFIG_PATH} ${pc_folder})
  execute_process(COMMAND pkg-config --cflags --libs ringload
    OUTPUT_VARIABLE flags OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)
  separate_arguments(flags UNIX_COMMAND "${flags}")
  if(BUILD_TYPE STREQUAL Release)
    list(PREPEND flags -O3 -DNDEBUG)
  else()
    list(PREPEND flags -g)
  endif()
  file(MAKE_DIRECTORY ${WORK}/build)
  run(c++ -std=c++20 ${SOURCE}/tests/consumer/main.cpp ${flags} -o ${program})
  if(CUDA)
    execute_process(COMMAND pkg-config --cflags --libs
      --define-variable=cuda_libdir=${CUDA_LIBDIR} ringload-cuda
      OUTPUT_VARIABLE flags OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)
    separate_arguments(flags UNIX_COMMAND "${flags}")
    run(c++ -std=c++20 ${SOURCE}/tests/consumer/cuda.cpp ${flags} -o ${program}_cuda)
  endif()
  if(C)
    execute_process(COMMAND pkg-config --cflags --libs ringload-c
      OUTPUT_VARIABLE flags OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)
    separate_arguments(flags UNIX_COMMAND "${flags}")
    run(cc ${SOURCE}/tests/consumer/main.c ${flags} -o ${program}_c)
  endif()
  if(HDF5)
    execute_process(COMMAND pkg-config --cflags --libs ringload-hdf5
      OUTPUT_VARIABLE flags OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)
    separate_arguments(flags UNIX_COMMAND "${flags}")
    run(c++ -std=c++20 ${SOURCE}/tests/consumer/hdf5.cpp ${flags} -o ${program}_hdf5)
  endif()
  if(REMOTE)
    execute_process(COMMAND pkg-config --cflags --libs ringload-remote
      OUTPUT_VARIABLE flags OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)
    separate_arguments(flags UNIX_COMMAND "${flags}")
    run(c++ -std=c++20 ${SOURCE}/tests/consumer/remote.cpp ${flags} -o ${program}_remote)
  endif()
else()
  run(${CMAKE_COMMAND} -S ${SOURCE}/tests/consumer -B ${WORK}/build -G Ninja
    -DCMAKE_BUILD_TYPE=${BUILD_TYPE} -DWAY=${WAY} -DCUDA=${CUDA} -DC=${C} -DHDF5=${HDF5}
    -DREMOTE=${REMOTE} -DMPI=${MPI}
    -DCMAKE_PREFIX_PATH=${PREFIX} -DRINGLOAD_SOURCE=${SOURCE}
    -DFETCHCONTENT_SOURCE_DIR_RINGLOAD=${SOURCE} ${MORE})
  run(${CMAKE_COMMAND} --build ${WORK}/build --target consumer)
  if(CUDA)
    run(${CMAKE_COMMAND} --build ${WORK}/build --target consumer_cuda)
  endif()
  if(C)
    run(${CMAKE_COMMAND} --build ${WORK}/build --target consumer_c consumer_c_remote
      consumer_c_hdf5)
    if(CUDA)
      run(${CMAKE_COMMAND} --build ${WORK}/build --target consumer_c_cuda)
    endif()
  endif()
  if(MPI)
    run(${CMAKE_COMMAND} --build ${WORK}/build --target consumer_mpi)
  endif()
  if(HDF5)
    run(${CMAKE_COMMAND} --build ${WORK}/build --target consumer_hdf5)
  endif()
  if(REMOTE)
    run(${CMAKE_COMMAND} --build ${WORK}/build --target consumer_remote)
  endif()
endif()

# One tensor of four bytes. The header has 64 (octal 100), padded with spaces as the format allows.
set(header "{\"one\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[0,4]}}")
string(LENGTH "${header}" length)
math(EXPR spaces "64 - ${length}")
string(REPEAT " " ${spaces} padding)
execute_process(COMMAND printf "\\100\\0\\0\\0\\0\\0\\0\\0${header}${padding}abcd"
  OUTPUT_FILE ${WORK}/one.safetensors COMMAND_ERROR_IS_FATAL ANY)

set(programs ${program})
if(C)
  list(APPEND programs ${program}_c)
endif()
foreach(one IN LISTS programs)
  run(${one} ${WORK}/one.safetensors)
  if(NOT output MATCHES "^one: 4 bytes at 0x[0-9a-f]+\n$")
    message(FATAL_ERROR "${one} printed: ${output}")
  endif()
endforeach()

if(C AND NOT WAY STREQUAL pkg_config)
  set(commands "${program}_c_remote" "${program}_c_hdf5 ${SOURCE}/tests/data/hdf5/keras.h5")
  if(CUDA)
    list(APPEND commands "${program}_c_cuda")
  endif()
  foreach(command IN LISTS commands)
    separate_arguments(command UNIX_COMMAND "${command}")
    run(${command})
    if(NOT output STREQUAL "ok\n")
      message(FATAL_ERROR "${command} printed: ${output}")
    endif()
  endforeach()
endif()

if(MPI AND NOT WAY STREQUAL pkg_config)
  run(${program}_mpi)  # MPI calls a program that mpirun did not start the only rank.
  if(NOT output MATCHES "^rank 0 of 1\n")
    message(FATAL_ERROR "the consumer of the component mpi printed: ${output}")
  endif()
endif()

if(CUDA)
  run(${program}_cuda)
  if(NOT output MATCHES "^CUDA devices: [0-9]+, [a-z]")
    message(FATAL_ERROR "the consumer of the component cuda printed: ${output}")
  endif()
endif()

if(REMOTE)
  run(${program}_remote)
  if(NOT output MATCHES "^http://127\\.0\\.0\\.1:1/model\\.safetensors: connecting: ")
    message(FATAL_ERROR "the consumer of the component remote printed: ${output}")
  endif()
endif()

if(HDF5)
  run(${program}_hdf5 ${SOURCE}/tests/data/hdf5/keras.h5)
  if(NOT output STREQUAL "6 tensors\n6 tensors\n")
    message(FATAL_ERROR "the consumer of the component hdf5 printed: ${output}")
  endif()
endif()
