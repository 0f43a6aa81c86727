// SPDX-License-Identifier: Apache-2.0
#pragma once

// libhdf5 in a process of its own: what starts it and waits for it. Nothing here calls libhdf5, so
// that a program that parses in such processes only need not link it: parser_main.cpp does the
// work.

#include <ringload/hdf5.hpp>

#include "core/fault.hpp"
#include "formats/hdf5.hpp"

namespace ringload::inline v0::h5 {

// The process's only argument but its limit of memory, a number of bytes. The file is its standard
// input, and it writes a message to its standard output.
inline constexpr const char* process_argument = "--ringload-hdf5-parse";

// Runs `how.program` for the open file. Any thread, of any number. Whatever becomes of the process,
// it is over when this returns.
result<hdf5_contents> describe_in_process(int file, const hdf5_process& how);

}  // namespace ringload::inline v0::h5
