// SPDX-License-Identifier: Apache-2.0
#pragma once

// Decides when a read of a distant mount is late. A late read is issued again: the read of a header
// by io/header_reader.hpp, and the read of a tensor by runtime/second_reads.hpp.

#include <chrono>

namespace ringload::inline v0 {

// A margin for short delays of the machine itself.
inline constexpr std::chrono::milliseconds late_margin{50};

// Returns the time after which a read is late that is expected to take `expected`.
inline std::chrono::steady_clock::duration late_after(
    std::chrono::duration<double> expected) noexcept {
  constexpr double lateness = 4;
  return std::chrono::duration_cast<std::chrono::steady_clock::duration>(lateness * expected) +
         late_margin;
}

}  // namespace ringload::inline v0
