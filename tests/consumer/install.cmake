# SPDX-License-Identifier: Apache-2.0
#
# Installs a build tree for the consumers and then moves the installation, because no file may
# contain the old path.
#
#   cmake -D BUILD=build_tree -D PREFIX=folder -P install.cmake

cmake_minimum_required(VERSION 3.23)

set(first ${PREFIX}_first_prefix_of_this_test)
file(REMOVE_RECURSE ${first} ${PREFIX})
execute_process(COMMAND ${CMAKE_COMMAND} --install ${BUILD} --prefix ${first}
  COMMAND_ERROR_IS_FATAL ANY)
file(RENAME ${first} ${PREFIX})
file(GLOB_RECURSE texts ${PREFIX}/*.cmake ${PREFIX}/*.pc ${PREFIX}/*.hpp)
if(NOT texts)
  message(FATAL_ERROR "nothing was installed in ${PREFIX}")
endif()
foreach(text IN LISTS texts)
  file(STRINGS ${text} lines REGEX "first_prefix_of_this_test")
  if(lines)
    message(FATAL_ERROR "${text} names the prefix: ${lines}")
  endif()
endforeach()
