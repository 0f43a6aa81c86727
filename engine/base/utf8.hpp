// SPDX-License-Identifier: Apache-2.0
#pragma once

// Checks UTF-8 text. Overlong forms, surrogates and code points above U+10FFFF are invalid.

#include <cstddef>
#include <ringload/export.hpp>
#include <string>
#include <string_view>

namespace ringload::inline v0 {

// Returns the length of the first sequence of `text`: 1 to 4 bytes. Returns 0 if the sequence is
// invalid, or if `text` is empty.
std::size_t utf8_sequence_bytes(std::string_view text) noexcept;

// Returns the number of bytes before the first invalid sequence, or `text.size()`.
RINGLOAD_EXPORT std::size_t utf8_valid_bytes(std::string_view text) noexcept;

// `sequence` must be a valid sequence. See utf8_sequence_bytes().
char32_t utf8_code_point(std::string_view sequence) noexcept;

RINGLOAD_EXPORT void append_utf8(std::string& out, char32_t code_point);

}  // namespace ringload::inline v0
