// SPDX-License-Identifier: Apache-2.0
#pragma once

// The files to read: a file, the files of a folder, or a block device. Opened read-only.

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/unique_fd.hpp"
#include "config.hpp"

namespace ringload::bench {

class target {
 public:
  struct file {
    std::string path;
    unique_fd fd;
    std::uint64_t bytes = 0;
  };

  /// Throws `ringload::error`: nothing there, nothing to read in it, or direct reads refused.
  target(const std::string& path, route by);

  /// These files, under a name of their own; one at least, none of them empty.
  target(std::string name, const std::vector<std::string>& files, route by);

  const std::string& path() const noexcept { return path_; }
  const std::vector<file>& files() const noexcept { return files_; }
  std::uint64_t bytes() const noexcept { return bytes_; }
  /// The drive that the first file lies on, or is.
  ::dev_t drive() const noexcept { return drive_; }

  /// The share of all bytes that the page cache has, 0 to 1; empty where the kernel does not say.
  std::optional<double> cached_share() const;

  /// Brings the page cache into that state, and returns the verified share. Throws
  /// `ringload::error` if it cannot be reached, or not be verified.
  std::optional<double> establish(cache_state state) const;

 private:
  void add(const std::string& path, route by);
  void close_list();

  std::string path_;
  std::vector<file> files_;
  std::uint64_t bytes_ = 0;
  ::dev_t drive_ = 0;
};

}  // namespace ringload::bench
