# SPDX-License-Identifier: Apache-2.0
#
# Checks for plain English: counts declared names that are function words, comments that begin with
# one, and examples in comments that a formatter would reflow. The limits are the counts of the tree
# today. They may only be lowered.
#
#   cmake [-D ROOT=tree] -P cmake/plain_words.cmake

cmake_minimum_required(VERSION 3.23)

if(NOT DEFINED ROOT)
  get_filename_component(ROOT ${CMAKE_CURRENT_LIST_DIR} DIRECTORY)
endif()

if(NOT DEFINED names_max)
  set(names_max 40)
endif()
if(NOT DEFINED comments_max)
  set(comments_max 5)
endif()

set(words "of|what|how|one|made|good|mine|each|with|by|at|why|bad|is|it|here|there|such|that|those")
string(APPEND words "|these|which|who|whose|both|any|some|same|other|others|own|none|so|as|all")
# A type, then the name, then a character that may follow a declared name.
set(declared_name "[a-zA-Z0-9_>] ?[&*]* [&*]*(${words})_?[,;=)({:]")
set(beginnings "Of|What|Who|Whom|Whose|Those|Such")
set(riddle "\n *///?!? *((${beginnings}) |That, )")
# An example in a comment whose code is followed by a comment. A formatter joins it with the next
# line.
set(reflowed "\n *///?   +[^\n]*[,)({,] +//[^\n]*")

set(names 0)
set(comments 0)
set(wrong 0)
file(GLOB_RECURSE files RELATIVE ${ROOT}
  ${ROOT}/engine/*.?pp ${ROOT}/engine/*.cu ${ROOT}/include/*.?pp ${ROOT}/include/*.h)
foreach(file IN LISTS files)
  file(READ ${ROOT}/${file} text)
  string(REPLACE ";" "," text "${text}")
  string(REPLACE "[" "(" text "${text}")
  string(REPLACE "]" ")" text "${text}")
  string(REGEX MATCHALL "${riddle}" found "${text}")
  list(LENGTH found count)
  math(EXPR comments "${comments} + ${count}")
  if(DEFINED SHOW AND count GREATER 0)
    message("${file}: ${count} comments")
  endif()
  if(text MATCHES "${reflowed}")
    message("${file}: a comment behind code within a comment is reflowed: ${CMAKE_MATCH_0}")
    math(EXPR wrong "${wrong} + 1")
  endif()
  string(REGEX REPLACE "//[^\n]*" "" code "${text}")
  set(keywords "return|delete|new|throw|co_return|co_await|else|case|and|or|not")
  string(REGEX REPLACE "(${keywords}) +(${words})" "" code "${code}")
  string(REGEX MATCHALL "${declared_name}" found "${code}")
  list(LENGTH found count)
  math(EXPR names "${names} + ${count}")
  if(DEFINED SHOW AND count GREATER 0)
    message("${file}: ${count} names: ${found}")
  endif()
endforeach()

list(LENGTH files count)
if(count EQUAL 0)
  message(FATAL_ERROR "plain_words: no source file under ${ROOT}")
endif()
if(names GREATER names_max)
  message("${names} declared names are function words, and ${names_max} are the limit")
  math(EXPR wrong "${wrong} + 1")
endif()
if(comments GREATER comments_max)
  message("${comments} comments begin with ${beginnings}, and ${comments_max} are the limit")
  math(EXPR wrong "${wrong} + 1")
endif()
if(wrong GREATER 0)
  message(FATAL_ERROR "plain_words: see CONTRIBUTING.md; -D SHOW=1 lists them")
endif()
message("plain_words: ${names} of at most ${names_max} names, "
  "${comments} of at most ${comments_max} comments")
