// SPDX-License-Identifier: Apache-2.0
#pragma once

// A file of a source: an open file that is known to be regular, or an object of a store. All checks
// of a file use the descriptor, not the path, so the file that was checked is the one that is read.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <stop_token>
#include <vector>

#include "base/fault.hpp"
#include "base/unique_fd.hpp"

namespace ringload::inline v0 {

class byte_source;

struct source_file {
  unique_fd fd = {};                         // Empty if the source is an object.
  std::uint64_t bytes = 0;                   // Size at open.
  std::shared_ptr<byte_source> object = {};  // Object in place of a file.
  std::stop_token stop = {};                 // Ends reads of the object.
};

// open() flags for a path that may be anything: O_NONBLOCK, because opening a FIFO without a writer
// would block, and O_NOCTTY, because a terminal could become our controlling one.
extern const int open_unknown_flags;

// Takes a descriptor that was opened with those flags.
result<source_file> as_regular_file(unique_fd fd);

// Reads exactly those bytes, or fails with truncated_file.
result<std::vector<std::byte>> read_bytes(const source_file& file, std::uint64_t offset,
                                          std::size_t bytes);

// The same into memory of the caller's.
result<void> read_bytes_into(int file, std::uint64_t offset, std::span<std::byte> into);
result<void> read_bytes_into(const source_file& file, std::uint64_t offset,
                             std::span<std::byte> into);

}  // namespace ringload::inline v0
