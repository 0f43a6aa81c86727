// SPDX-License-Identifier: Apache-2.0
#pragma once

// The output file of an HTML page. The file is opened before the measurement, so that an error is
// reported at once. Its old content stays until the page is written.

#include <string>
#include <string_view>

#include "base/unique_fd.hpp"
#include "target.hpp"

namespace ringload::bench {

class page_file {
 public:
  /// Throws `usage_error` if `path` is one of the target's files, under any name, or if it exists
  /// but is not a regular file. Throws `ringload::error` if the file cannot be opened.
  page_file(std::string path, const target& source);
  page_file(const page_file&) = delete;
  page_file& operator=(const page_file&) = delete;
  /// Removes the file if this object created it and wrote no page.
  ~page_file();

  /// Replaces the content. Throws `ringload::error`.
  void write(std::string_view page);

 private:
  std::string path_;
  unique_fd fd_;
  bool unfinished_ = false;
};

}  // namespace ringload::bench
