// SPDX-License-Identifier: Apache-2.0
#pragma once

// Converts the text of JSON numbers. The caller chooses the conversion by the number's purpose: a
// size cannot be written as 1.0 or -0, and 2^64 - 1 must not pass through a double.

#include <cstdint>
#include <optional>
#include <string_view>

namespace ringload::inline v0 {

inline bool is_digit(char c) noexcept { return c >= '0' && c <= '9'; }

// The text must follow JSON's grammar for a number.

// Accepts "0" to "18446744073709551615", written with digits only. Empty for any other text.
std::optional<std::uint64_t> json_unsigned(std::string_view number) noexcept;

// True if a double would become infinite: from 1.7976931348623158079e308.
bool json_exceeds_double(std::string_view number);

// The number without its fraction: 1.5e3 -> 1500. Empty if it is negative or above 2^64 - 1.
std::optional<std::uint64_t> json_truncated(std::string_view number);

}  // namespace ringload::inline v0
