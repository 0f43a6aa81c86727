// SPDX-License-Identifier: Apache-2.0
#pragma once

// Tracks the progress of one write when the kernel accepts it in pieces.

#include <cstdint>
#include <optional>

#include "base/fault.hpp"

namespace ringload::inline v0 {

class write_cursor {
 public:
  // EINTR and EAGAIN repeat the write. After this many in a row without a byte of progress the
  // write fails.
  static constexpr unsigned retries_max = 1000;

  // `unit` is the granularity at which a write can resume: that of direct I/O, or 1.
  write_cursor(std::uint32_t bytes, std::uint32_t unit) noexcept : bytes_(bytes), unit_(unit) {}

  // Bytes written so far.
  std::uint32_t written() const noexcept { return written_; }

  // Takes the kernel's result for the last write: a byte count or a negative errno. Returns true
  // when all bytes are written.
  result<bool> completed(int res);

 private:
  std::uint32_t bytes_;
  std::uint32_t unit_;
  std::uint32_t written_ = 0;
  unsigned retries_in_a_row_ = 0;
};

}  // namespace ringload::inline v0
