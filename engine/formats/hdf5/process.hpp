// SPDX-License-Identifier: Apache-2.0
#pragma once

// Starts a process for libhdf5 and waits for it. This code does not call libhdf5, so a program that
// only parses in such processes need not link the library; parser_main.cpp does the work.

#include <ringload/hdf5.hpp>

#include "base/fault.hpp"
#include "formats/hdf5.hpp"

namespace ringload::inline v0::h5 {

// The first argument of the process; the second is its memory limit in bytes. The file is its
// standard input, and it writes a message to its standard output.
inline constexpr const char* process_argument = "--ringload-hdf5-parse";

// Runs `settings.program` for the open file. Thread-safe. The process has always ended when this
// returns.
result<hdf5_contents> describe_in_process(int file, const hdf5_process& settings);

}  // namespace ringload::inline v0::h5
