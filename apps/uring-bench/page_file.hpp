// SPDX-License-Identifier: Apache-2.0
#pragma once

// The file that a page goes to. It is opened before anything is measured, so that what cannot be
// had is said at once; and what it holds stays as it is until there is a page to write.

#include <string>
#include <string_view>

#include "core/unique_fd.hpp"
#include "target.hpp"

namespace ringload::bench {

class page_file {
 public:
  /// Throws `usage_error` where `path` is one of the target's files, under whatever name, or what
  /// is there is no regular file; `ringload::error` where it cannot be opened.
  page_file(std::string path, const target& of);
  page_file(const page_file&) = delete;
  page_file& operator=(const page_file&) = delete;
  /// Removes a file that was not there before, if it has no whole page.
  ~page_file();

  /// In place of what it held. Throws `ringload::error`.
  void write(std::string_view page);

 private:
  std::string path_;
  unique_fd fd_;
  bool unfinished_ = false;
};

}  // namespace ringload::bench
