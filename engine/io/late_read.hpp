// SPDX-License-Identifier: Apache-2.0
#pragma once

// Decides when a read of a distant mount is late. A late read is issued again: the read of a header
// by io/header_reader.hpp, and the read of a tensor by runtime/second_reads.hpp.

#include <chrono>

namespace ringload::inline v0 {

// A read is late after `factor` times its expected time, plus `margin`.
struct lateness {
  double factor;
  std::chrono::milliseconds margin;  // Allows for short delays of this machine.
};

inline constexpr lateness usual_lateness = {4, std::chrono::milliseconds(50)};
// For a mount whose reads nearly always take the expected time.
inline constexpr lateness steady_lateness = {2, std::chrono::milliseconds(10)};

// Returns the time after which a read with this expected time is late.
inline std::chrono::steady_clock::duration late_after(
    std::chrono::duration<double> expected, const lateness& allowed = usual_lateness) noexcept {
  return std::chrono::duration_cast<std::chrono::steady_clock::duration>(allowed.factor *
                                                                         expected) +
         allowed.margin;
}

}  // namespace ringload::inline v0
