# SPDX-License-Identifier: Apache-2.0
#
# Tests what cmake/tidy.cmake refuses and accepts, each with a tree of one file.
#
#   cmake -D WORK=folder -P cmake/tidy_test.cmake

cmake_minimum_required(VERSION 3.23)

set(spdx "// SPDX-License-Identifier: Apache-2.0\n")
set(failures 0)

# try(FILE TEXT COMPLAINT): an empty complaint means that the file must pass.
function(try file text complaint)
  file(REMOVE_RECURSE ${WORK})
  file(WRITE ${WORK}/${file} "${text}")
  execute_process(COMMAND ${CMAKE_COMMAND} -D ROOT=${WORK} -P ${CMAKE_CURRENT_LIST_DIR}/tidy.cmake
    RESULT_VARIABLE failed ERROR_VARIABLE said OUTPUT_QUIET)
  string(FIND "${said}" "${complaint}" found)
  if(complaint STREQUAL "" AND failed)
    message("${file} is refused: ${said}")
  elseif(NOT complaint STREQUAL "" AND (NOT failed OR found EQUAL -1))
    message("${file} is not refused with '${complaint}': ${said}")
  else()
    return()
  endif()
  math(EXPR count "${failures} + 1")
  set(failures ${count} PARENT_SCOPE)
endfunction()

# Arrows.
try(engine/plan/a.hpp "${spdx}#include \"base/fault.hpp\"\n" "")
try(engine/plan/a.hpp "${spdx}#include \"formats/catalog_entries.hpp\"\n"
  "a.hpp:2: engine/plan may not include \"formats/catalog_entries.hpp\"")
try(engine/base/a.hpp "${spdx}  #  include \"load/job.hpp\"\n" "engine/base may not")
try(engine/load/a.cpp "${spdx}#include \"io/io_queue.hpp\"\n" "")
try(engine/load/a.cpp "${spdx}#include \"device/cuda/cuda.hpp\"\n" "engine/load may not")
try(engine/device/cuda/a.cpp "${spdx}#include \"device/backend.hpp\"\n" "")
try(engine/plan/a.hpp "${spdx}#include \"../base/fault.hpp\"\n" "from the root of engine/")
try(engine/plan/a.hpp "${spdx}#include \"fault.hpp\"\n" "engine/plan may not")
try(engine/newcomer/a.hpp "${spdx}#include <vector>\n" "does not know the room engine/newcomer")

# Public headers, and the files that may include only them.
try(engine/plan/a.hpp "${spdx}#include <ringload/dtype.hpp>\n" "")
try(engine/plan/a.hpp "${spdx}#include \"ringload/dtype.hpp\"\n" "included as <ringload/dtype.hpp>")
try(include/ringload/a.hpp "${spdx}#include \"base/fault.hpp\"\n" "only <...>")
try(include/ringload/a.hpp "${spdx}#include <liburing.h>\n" "may not include <liburing.h>")
try(apps/ringload/a.cpp "${spdx}#include \"size.hpp\"\n" "")
try(apps/ringload/a.cpp "${spdx}#include \"plan/plan.hpp\"\n" "only <ringload/...> here")
try(tests/consumer/main.cpp "${spdx}#include <ringload/detail/operation.hpp>\n" "public face")
try(tests/plan/a.cpp "${spdx}#include \"plan/plan.hpp\"\n" "")

# External headers.
try(engine/io/ring/a.cpp "${spdx}#include <liburing.h>\n" "")
try(engine/io/a.cpp "${spdx}#include <liburing.h>\n" "engine/io may not")
try(engine/plan/a.cpp "${spdx}#include <boost/asio/buffer.hpp>\n" "engine/plan may not")
try(engine/device/host.cpp "${spdx}#include <cuda_runtime.h>\n" "engine/device may not")
try(engine/device/cuda/a.cu "${spdx}#include <cuda_runtime.h>\n" "")
try(engine/device/cuda/a.cu "${spdx}#include <boost/asio.hpp>\n" "no Boost.Asio in a .cu file")

# Pure files have tests.
try(engine/plan/a.cpp "${spdx}int a;\n" "without a test: expected tests/plan/a_test.cpp")
try(engine/io/io_cursor.cpp "${spdx}int a;\n" "a pure file without a test")
try(engine/io/a.cpp "${spdx}int a;\n" "")
try(engine/formats/gguf/gguf_types.cpp "${spdx}int a;\n" "")

# The text.
try(engine/base/a.hpp "int a;\n" "does not begin with its SPDX line")
try(dev "#!/bin/sh\n# SPDX-License-Identifier: Apache-2.0\n" "")
try(engine/base/a.hpp "${spdx}\tint a;\n" "a.hpp:2: a tab")
try(engine/base/a.hpp "${spdx}int a;" "the last line has no end")
try(engine/base/a.hpp "${spdx}// TO${nothing}DO: later\n" "belongs in an issue")
string(REPEAT "x" 97 line)
try(engine/base/a.hpp "${spdx}// ${line}\n" "")
try(engine/base/a.hpp "${spdx}// [${line}\n" "a.hpp:2: 101 columns")
string(REPEAT "a[0];\n" 499 lines)
try(engine/base/a.hpp "${spdx}${lines}" "")
try(engine/base/a.hpp "${spdx}${lines};\n" "501 lines")
try(readme.txt "nothing that is a source file\n" "no source file under")

file(REMOVE_RECURSE ${WORK})
if(failures GREATER 0)
  message(FATAL_ERROR "tidy_test: ${failures} failures")
endif()
