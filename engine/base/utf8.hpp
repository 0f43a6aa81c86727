// SPDX-License-Identifier: Apache-2.0
#pragma once

// UTF-8 as Unicode defines it: no overlong forms, no surrogates, nothing above U+10FFFF.

#include <cstddef>
#include <ringload/export.hpp>
#include <string>
#include <string_view>

namespace ringload::inline v0 {

// The length of the one valid sequence that `text` begins with, 1 to 4; 0 where it begins with
// none.
std::size_t utf8_sequence_bytes(std::string_view text) noexcept;

// How many bytes of `text` are valid before the first that is not; `text.size()` when all are.
RINGLOAD_EXPORT std::size_t utf8_valid_bytes(std::string_view text) noexcept;

// The code point of a sequence that utf8_sequence_bytes() has measured.
char32_t utf8_code_point(std::string_view sequence) noexcept;

RINGLOAD_EXPORT void append_utf8(std::string& out, char32_t code_point);

}  // namespace ringload::inline v0
