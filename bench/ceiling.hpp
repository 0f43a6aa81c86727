// SPDX-License-Identifier: Apache-2.0
#pragma once

// What the machine gives when nothing else is to be done: reads of one file into memory that is
// there already. As plain as can be, and with none of ringload's reading code.

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace ringload::bench {

struct direct_shape {
  std::uint32_t block_bytes;
  unsigned depth;
};

/// Seconds that it takes to read the whole file with O_DIRECT through io_uring, `depth` blocks at a
/// time, each to its own place in `into`. Throws std::system_error.
double read_direct(const std::string& path, std::span<std::byte> into, direct_shape shape);

/// Seconds that it takes to read the whole file with `threads` threads of pread, 2 MiB at a time.
/// With `fresh` memory each thread populates the 2 MiB before it reads into them.
double read_buffered(const std::string& path, std::span<std::byte> into, unsigned threads,
                     bool fresh);

/// The share of the file that is in the page cache, 0 to 1, by mincore; for files of ours only.
double cached_share(const std::string& path);
/// Until that share is 0, or 1. Throws std::runtime_error if it cannot be had.
void make_cold(const std::string& path);
void make_warm(const std::string& path);

}  // namespace ringload::bench
