// SPDX-License-Identifier: Apache-2.0
#pragma once

// Starts a process for libhdf5 and waits for the process. This file does not call libhdf5.
// Therefore a program that parses HDF5 files only in other processes need not link libhdf5.
// parser_main.cpp has the code of the process.

#include <cstddef>
#include <ringload/hdf5.hpp>

#include "base/fault.hpp"
#include "formats/hdf5.hpp"
#include "formats/hdf5/pipe_protocol.hpp"

namespace ringload::inline v0::h5 {

// The first argument of the process. The second argument is the memory limit in bytes. The process
// reads the file from its standard input, and writes a message to its standard output (see
// pipe_protocol.hpp).
inline constexpr const char* process_argument = "--ringload-hdf5-parse";

// Runs `settings.program` for the open file. Thread-safe. When the function returns, the process
// has ended. Fails if the message has more than `message_bytes` bytes.
result<hdf5_contents> describe_in_process(int file, const hdf5_process& settings,
                                          std::size_t message_bytes = message_bytes_max);

}  // namespace ringload::inline v0::h5
