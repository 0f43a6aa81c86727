// SPDX-License-Identifier: Apache-2.0
#pragma once

// What a number says, from its text. A size that was written as 1.0 or -0 is no size, and 2^64 - 1
// must not pass through a double: so no number is converted before it is known what it is for.

#include <cstdint>
#include <optional>
#include <string_view>

namespace ringload::inline v0 {

inline bool is_digit(char c) noexcept { return c >= '0' && c <= '9'; }

// All of these take text that keeps to JSON's grammar for a number.

// "0" to "18446744073709551615", written with digits alone; empty for anything else.
std::optional<std::uint64_t> json_unsigned(std::string_view number) noexcept;

// Whether a double would become infinite: from 1.7976931348623158079e308 on.
bool json_exceeds_double(std::string_view number);

// The number without its fraction: 1.5e3 -> 1500. Empty if it is negative or above 2^64 - 1.
std::optional<std::uint64_t> json_truncated(std::string_view number);

}  // namespace ringload::inline v0
