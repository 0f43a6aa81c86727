// SPDX-License-Identifier: Apache-2.0
#pragma once

// An open file that is known to be regular. All checks use the descriptor, not the path, so the
// file that was checked is the one that is read.

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "core/fault.hpp"
#include "core/unique_fd.hpp"

namespace ringload::inline v0 {

struct regular_file {
  unique_fd fd;
  std::uint64_t bytes = 0;  // When it was opened.
};

// open() flags for a path that may be anything: O_NONBLOCK, because opening a FIFO without a writer
// would block, and O_NOCTTY, because a terminal could become our controlling one.
extern const int open_unknown_flags;

// Takes a descriptor that was opened with those flags.
result<regular_file> as_regular_file(unique_fd fd);

// Reads exactly those bytes, or fails with truncated_file.
result<std::vector<std::byte>> read_bytes(const regular_file& file, std::uint64_t offset,
                                          std::size_t bytes);

// The same into memory of the caller's.
result<void> read_bytes_into(const regular_file& file, std::uint64_t offset,
                             std::span<std::byte> into);

}  // namespace ringload::inline v0
