// SPDX-License-Identifier: Apache-2.0
#pragma once

// A file that will be replaced by a file with the same contents and changes. No other writer may
// change it meanwhile, because those changes would be lost.

#include <sys/stat.h>

#include <string>

#include "base/fault.hpp"
#include "base/unique_fd.hpp"

namespace ringload::inline v0 {

class replaced_file {
 public:
  replaced_file() = default;

  // Locks the open file and checks that `path` names it. Fails with EBUSY if another writer holds
  // the lock, and with errc::changed_file if the file has changed.
  result<void> take(const std::string& path, int fd);
  // Must be called right before the replacement. Fails with errc::changed_file if the file has
  // changed since take(). Without take(), succeeds.
  result<void> check_unchanged() const;

 private:
  std::string path_;
  unique_fd locked_;
  struct ::stat before_ = {};
};

}  // namespace ringload::inline v0
