// SPDX-License-Identifier: Apache-2.0
#pragma once

// Standard output, on which a failed write is an error like any other: a full disk must not look
// like a short listing.

#include <string>
#include <string_view>

namespace ringload::tool {

/// Whoever read our output has gone, as `head` does. Nothing is left to say, and nobody to say it
/// to.
struct reader_gone {};

/// Throws `ringload::error`, or `reader_gone`. What was not flushed when it goes away is lost, so
/// each command flushes last.
class output {
 public:
  void write(std::string_view text);
  void flush();

 private:
  std::string waiting_;  // At most `flush_at` and one text.
};

/// One line on standard error: the program, ": " and the text, control characters escaped. A
/// failure is ignored, for there is nowhere left to report it.
void complain(std::string_view program, std::string_view text) noexcept;

}  // namespace ringload::tool
