// SPDX-License-Identifier: Apache-2.0
#pragma once

// Formats a number with at least five digits, for the file names of a split checkpoint, such as
// model-00001-of-00003.gguf.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>

namespace ringload::inline v0 {

inline constexpr std::size_t series_number_digits = 5;

inline std::string series_number(std::uint64_t value) {
  const std::string digits = std::to_string(value);
  return std::string(series_number_digits - std::min(series_number_digits, digits.size()), '0') +
         digits;
}

}  // namespace ringload::inline v0
