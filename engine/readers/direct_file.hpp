// SPDX-License-Identifier: Apache-2.0
#pragma once

// A second descriptor of an open file, for direct reads. Whether they are possible is decided by
// the open, by what statx says of alignment, and by one real read, once for each file system.

#include <sys/types.h>

#include <cstdint>
#include <map>
#include <mutex>
#include <string>

#include "core/fault.hpp"
#include "core/unique_fd.hpp"

namespace ringload::inline v0 {

class direct_files {
 public:
  struct opened {
    unique_fd fd;         // Empty: no direct reads.
    std::string refusal;  // "the file system refuses O_DIRECT", if so.
  };

  // Opens once more what `buffered` has open. Where there is no /proc, `path` must still name it;
  // else errc::changed_file. Any thread.
  result<opened> open(int buffered, const std::string& path, std::uint64_t file_bytes);

 private:
  std::mutex mutex_;
  // What one real read said, by file system: empty is "yes". Guarded by the mutex.
  std::map<::dev_t, std::string> verdicts_;
};

}  // namespace ringload::inline v0
