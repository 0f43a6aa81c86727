// SPDX-License-Identifier: Apache-2.0
#pragma once

// Opens a file a second time with O_DIRECT. Whether direct reads work is decided by that open, by
// statx's alignment, and by one trial read for each file system.

#include <sys/types.h>

#include <cstdint>
#include <map>
#include <mutex>
#include <string>

#include "core/block.hpp"
#include "core/fault.hpp"
#include "core/unique_fd.hpp"

namespace ringload::inline v0 {

class direct_files {
 public:
  struct opened {
    unique_fd fd;         // Empty: no direct reads.
    std::string refusal;  // "the file system refuses O_DIRECT", if so.
    std::uint32_t address_alignment = direct_address_alignment;  // Of what is read into.
  };

  enum class access : std::uint8_t { read, write };  // What is written is read too.

  // Reopens the file that `buffered` has open. Without /proc, `path` must still name it, or
  // errc::changed_file. Any thread.
  result<opened> open(int buffered, const std::string& path, std::uint64_t file_bytes,
                      access how = access::read);

 private:
  std::mutex mutex_;
  // Why the trial read failed, by file system; empty: it worked. Guarded by the mutex.
  std::map<::dev_t, std::string> verdicts_;
};

}  // namespace ringload::inline v0
