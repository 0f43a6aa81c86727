// SPDX-License-Identifier: Apache-2.0
#pragma once

// Writes metadata of binary formats as JSON text. Bytes that are not UTF-8 become U+FFFD. Numbers
// that JSON cannot express become the strings "NaN", "Infinity" and "-Infinity".

#include <cstdint>
#include <string>
#include <string_view>

namespace ringload::inline v0 {

void append_json_string(std::string& out, std::string_view text);

// Appends the shortest text that converts back to the same number of the same width.
void append_json_number(std::string& out, double value);
void append_json_number(std::string& out, std::uint64_t value);
void append_json_number(std::string& out, std::int64_t value);

// Returns `text` with U+FFFD instead of each byte that is not UTF-8.
std::string as_utf8(std::string_view text);

}  // namespace ringload::inline v0
