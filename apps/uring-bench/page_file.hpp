// SPDX-License-Identifier: Apache-2.0
#pragma once

// The output file of an HTML page. Opened before anything is measured, so that an error is reported
// at once; its old content stays until the page is written.

#include <string>
#include <string_view>

#include "base/unique_fd.hpp"
#include "target.hpp"

namespace ringload::bench {

class page_file {
 public:
  /// Throws `usage_error` where `path` is one of the target's files, under whatever name, or what
  /// is there is no regular file; `ringload::error` where it cannot be opened.
  page_file(std::string path, const target& of);
  page_file(const page_file&) = delete;
  page_file& operator=(const page_file&) = delete;
  /// Removes a file that it created, if no page was written.
  ~page_file();

  /// Replaces the content. Throws `ringload::error`.
  void write(std::string_view page);

 private:
  std::string path_;
  unique_fd fd_;
  bool unfinished_ = false;
};

}  // namespace ringload::bench
