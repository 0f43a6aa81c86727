# SPDX-License-Identifier: Apache-2.0
#
# The program in the README is the one that the tests build, to the letter.

cmake_minimum_required(VERSION 3.23)

get_filename_component(root ${CMAKE_CURRENT_LIST_DIR}/../.. ABSOLUTE)

file(READ ${root}/tests/consumer/main.cpp program)
string(REGEX REPLACE "^// SPDX[^\n]*\n" "" program "${program}")
if(EXISTS ${root}/README.md)
  file(READ ${root}/README.md readme)
endif()
string(FIND "${readme}" "```cpp\n${program}```\n" found)
if(found EQUAL -1)
  message(FATAL_ERROR "README.md has no block ```cpp that equals tests/consumer/main.cpp")
endif()
