// SPDX-License-Identifier: Apache-2.0
#pragma once

// Standard output with checked writes: on a full disk the program must fail, not print a short
// list.

#include <string>
#include <string_view>

namespace ringload::tool {

/// EPIPE: the reader of standard output has closed it, as `head` does. The program ends silently.
struct reader_gone {};

/// Throws `ringload::error`, or `reader_gone`. The destructor does not flush, so each command
/// flushes last.
class output {
 public:
  void write(std::string_view text);
  void flush();

 private:
  std::string waiting_;  // At most `flush_at` and one text.
};

/// One line on standard error: the program, ": " and the text, control characters escaped. Write
/// errors are ignored.
void complain(std::string_view program, std::string_view text) noexcept;

}  // namespace ringload::tool
