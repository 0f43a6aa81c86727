// SPDX-License-Identifier: Apache-2.0
#pragma once

// Parses integers in text. Used for addresses, listings and file names.

#include <charconv>
#include <optional>
#include <string_view>
#include <system_error>

namespace ringload::inline v0 {

// Returns the number if the text is a number in `base` that fits into T. Otherwise returns an empty
// optional. The text may have digits, and a minus if T is signed, but no other characters.
template <class T>
std::optional<T> parse_number(std::string_view text, int base = 10) noexcept {
  T number = 0;
  const char* const end = text.data() + text.size();
  const auto read = std::from_chars(text.data(), end, number, base);
  return read.ec == std::errc() && read.ptr == end ? std::optional(number) : std::nullopt;
}

}  // namespace ringload::inline v0
