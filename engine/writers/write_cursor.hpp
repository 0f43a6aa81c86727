// SPDX-License-Identifier: Apache-2.0
#pragma once

// How far one write has come, when the kernel takes it in pieces.

#include <cstdint>
#include <optional>

#include "core/fault.hpp"

namespace ringload::inline v0 {

class write_cursor {
 public:
  // EINTR and EAGAIN say "again"; a write that hears it this often in a row without a byte of
  // progress has failed.
  static constexpr unsigned retries_max = 1000;

  // `unit` is what a write can be resumed at: that of direct I/O, or 1.
  write_cursor(std::uint32_t bytes, std::uint32_t unit) noexcept : bytes_(bytes), unit_(unit) {}

  // So many bytes are written; the next write begins behind them.
  std::uint32_t written() const noexcept { return written_; }

  // Takes what the kernel said of the last write, a number of bytes or a negative errno. True when
  // all is written.
  result<bool> completed(int res);

 private:
  std::uint32_t bytes_;
  std::uint32_t unit_;
  std::uint32_t written_ = 0;
  unsigned retries_in_a_row_ = 0;
};

}  // namespace ringload::inline v0
