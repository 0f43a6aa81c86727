// SPDX-License-Identifier: Apache-2.0
#pragma once

// Writes to standard output and checks each write. If the disk is full, the program must fail, and
// must not silently leave an incomplete list.

#include <string>
#include <string_view>

namespace ringload::tool {

/// Thrown if the reader has closed standard output (EPIPE), as `head` does. The program then ends
/// without a message.
struct reader_gone {};

/// Buffers text and writes it to standard output. Both functions throw `ringload::error` or
/// `reader_gone`. The destructor does not write the buffered text, so each command must call
/// flush() at its end.
class output {
 public:
  void write(std::string_view text);
  void flush();

 private:
  std::string waiting_;  // At most `flush_at` bytes and one more text.
};

/// Writes one line to standard error: the name of the program, ": ", and the text. Control
/// characters are escaped. Write errors are ignored.
void complain(std::string_view program, std::string_view text) noexcept;

}  // namespace ringload::tool
