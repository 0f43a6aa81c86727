// SPDX-License-Identifier: Apache-2.0
#pragma once

// Opens a file a second time with O_DIRECT. Direct reads are used if that open succeeds, the
// alignment of statx is suitable, and one trial read for each file system works.

#include <sys/types.h>

#include <cstdint>
#include <map>
#include <mutex>
#include <string>

#include "base/fault.hpp"
#include "base/io_unit.hpp"
#include "base/unique_fd.hpp"

namespace ringload::inline v0 {

class direct_files {
 public:
  struct opened {
    unique_fd fd;         // Empty: direct reads are not possible.
    std::string refusal;  // "the file system refuses O_DIRECT", or empty.
    // Required alignment of the target address.
    std::uint32_t address_alignment = direct_address_alignment;
  };

  enum class access : std::uint8_t { read, write };  // Written files are read too.

  // Reopens the file behind `buffered`. Without /proc, `path` must still name that file; otherwise
  // fails with errc::changed_file. Thread-safe.
  result<opened> open(int buffered, const std::string& path, std::uint64_t file_bytes,
                      access mode = access::read);

 private:
  std::mutex mutex_;
  // Why the trial read failed, by file system; empty: it worked. Guarded by the mutex.
  std::map<::dev_t, std::string> verdicts_;
};

}  // namespace ringload::inline v0
