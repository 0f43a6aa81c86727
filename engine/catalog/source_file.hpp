// SPDX-License-Identifier: Apache-2.0
#pragma once

// A file of a source: an open regular file, or an object of a store. All checks use the descriptor
// and not the path, so the file that was checked is the file that is read.

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <ctime>
#include <memory>
#include <span>
#include <stop_token>
#include <vector>

#include "base/fault.hpp"
#include "base/unique_fd.hpp"
#include "io/header_reader.hpp"

namespace ringload::inline v0 {

class byte_source;

struct source_file {
  unique_fd fd = {};                         // Empty if the file is an object.
  std::uint64_t bytes = 0;                   // Size when the file was opened.
  std::shared_ptr<byte_source> object = {};  // The object of the store. Null if `fd` is set.
  std::stop_token stop = {};                 // A stop request ends reads of the object.
  ::timespec modified = {};                  // Modification time when the file was opened.
  ::dev_t device = 0;                        // Device number of the file system.
  bool is_distant = false;                   // See is_distant() in io/block_device_id.hpp.
  header_reads headers = {};                 // Reads the header if `direct` is set.
  unique_fd direct = {};                     // Set by read_header_with().
  std::vector<std::byte> first_bytes = {};   // Set by read_first_bytes().
  bool was_read_direct = false;              // Set by read_first_bytes().
};

// Flags of open() for a path that may name any kind of file. Without O_NONBLOCK, open() would block
// on a FIFO without a writer. Without O_NOCTTY, a terminal could become the controlling terminal.
extern const int open_unknown_flags;

// `fd` must have been opened with open_unknown_flags.
result<source_file> as_regular_file(unique_fd fd);

// Makes `headers.reader` carry out the later reads of a distant file. Does nothing for other files.
void read_header_with(const header_reads& headers, source_file& file);

// Reads the first bytes of a file for which read_header_with() has opened `direct`. A read of a
// distant file takes at least a round trip. Most headers are within the first bytes, and therefore
// take one round trip instead of one for each part of the header. If this read fails, later reads
// access the file.
void read_first_bytes(source_file& file);

// Reads exactly `bytes` bytes. Returns errc::truncated_file if the file ends earlier.
result<std::vector<std::byte>> read_bytes(const source_file& file, std::uint64_t offset,
                                          std::size_t bytes);

// Reads exactly into.size() bytes. Returns errc::truncated_file if the file ends earlier.
result<void> read_bytes_into(int file, std::uint64_t offset, std::span<std::byte> into);
result<void> read_bytes_into(const source_file& file, std::uint64_t offset,
                             std::span<std::byte> into);

}  // namespace ringload::inline v0
