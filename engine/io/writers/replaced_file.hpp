// SPDX-License-Identifier: Apache-2.0
#pragma once

// A file that another one is to replace, made of what it holds. Nobody else may replace or change
// it meanwhile, or what they have written would be lost.

#include <sys/stat.h>

#include <string>

#include "base/fault.hpp"
#include "base/unique_fd.hpp"

namespace ringload::inline v0 {

class replaced_file {
 public:
  replaced_file() = default;

  // Locks the file that is open there, and checks that `path` is its name. Faults: EBUSY while
  // another writer has it; errc::changed_file.
  result<void> take(const std::string& path, int fd);
  // Right before it is replaced. errc::changed_file. Nothing was taken: it is unchanged.
  result<void> check_unchanged() const;

 private:
  std::string path_;
  unique_fd locked_;
  struct ::stat before_ = {};
};

}  // namespace ringload::inline v0
