// SPDX-License-Identifier: Apache-2.0
#pragma once

// A file that will be replaced by a changed copy of the file. Used by writers that append to a .zt
// file. No other writer may change the file in the meantime, because the changes would be lost.

#include <sys/stat.h>

#include <string>

#include "base/fault.hpp"
#include "base/unique_fd.hpp"

namespace ringload::inline v0 {

class replaced_file {
 public:
  replaced_file() = default;

  // Locks the open file `fd` and checks that `path` names this file. Returns EBUSY if another
  // writer has the lock. Returns errc::changed_file if `path` names another file.
  result<void> lock(const std::string& path, int fd);
  // Must be called immediately before the replacement. Returns errc::changed_file if the file has
  // changed since lock(). Succeeds if lock() was not called.
  result<void> check_unchanged() const;

 private:
  std::string path_;
  unique_fd locked_;
  struct ::stat before_ = {};
};

}  // namespace ringload::inline v0
