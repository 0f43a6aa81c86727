// SPDX-License-Identifier: Apache-2.0
#pragma once

// Converts the text of JSON numbers. The caller chooses the conversion that fits the meaning of the
// number. For example, a size must not be written as 1.0 or -0, and must not be converted to a
// double.

#include <cstdint>
#include <optional>
#include <string_view>

namespace ringload::inline v0 {

inline bool is_digit(char c) noexcept { return c >= '0' && c <= '9'; }

// The parameter `number` of the following functions must follow JSON's grammar for a number.

// Converts the numbers 0 to 18446744073709551615, written with digits only. Returns an empty
// optional for any other text.
std::optional<std::uint64_t> json_unsigned(std::string_view number) noexcept;

// Returns true if the number would be infinite as a double. The absolute value of such a number is
// at least about 1.7976931348623158079e308.
bool json_exceeds_double(std::string_view number);

// Returns the number without its fraction: 1500 for 1.5e3. Returns an empty optional if the number
// is negative or greater than 2^64 - 1.
std::optional<std::uint64_t> json_truncated(std::string_view number);

}  // namespace ringload::inline v0
