// SPDX-License-Identifier: Apache-2.0
#pragma once

// The files to read: a file, the files of a folder, or a block device. The files are opened
// read-only.

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/unique_fd.hpp"
#include "config.hpp"

namespace ringload::bench {

/// The maximum share of a cold block device in the page cache. A mounted file system keeps some
/// blocks of its device there. Also the maximum share of any target after direct reads.
inline constexpr double cold_share_max = 0.01;

/// Returns true if a target with this share of cached bytes has the state. A cold file must have no
/// cached byte.
bool has_state(cache_state state, double share, bool is_block_device) noexcept;

/// Returns a share as text: "0.012 %".
std::string percent_text(double share);

class target {
 public:
  struct file {
    std::string path;
    unique_fd fd;
    std::uint64_t bytes = 0;
  };

  /// Throws `ringload::error` if the path does not exist, if it has no bytes to read, or if direct
  /// reads are refused.
  target(const std::string& path, route by);

  /// Creates a target of these files, with its own name. At least one file is needed, and no file
  /// may be empty.
  target(std::string name, const std::vector<std::string>& files, route by);

  const std::string& path() const noexcept { return path_; }
  const std::vector<file>& files() const noexcept { return files_; }
  std::uint64_t bytes() const noexcept { return bytes_; }
  /// Returns the drive of the first file.
  ::dev_t drive() const noexcept { return drive_; }

  /// Returns the share of all bytes that is in the page cache, 0 to 1. Returns an empty optional if
  /// the kernel does not report it.
  std::optional<double> cached_share() const;

  /// Sets up this state of the page cache, and returns the verified share of cached bytes. Throws
  /// `ringload::error` if the state cannot be reached or verified.
  std::optional<double> establish(cache_state state) const;

 private:
  void add(const std::string& path, route by);
  void close_list();

  std::string path_;
  std::vector<file> files_;
  std::uint64_t bytes_ = 0;
  ::dev_t drive_ = 0;
  bool is_block_device_ = false;
};

}  // namespace ringload::bench
