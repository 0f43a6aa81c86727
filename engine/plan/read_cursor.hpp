// SPDX-License-Identifier: Apache-2.0
#pragma once

// Tracks the progress of one read of a plan when the kernel returns it in pieces.

#include <cstdint>
#include <optional>

#include "base/fault.hpp"
#include "plan/plan.hpp"

namespace ringload::inline v0 {

class read_cursor {
 public:
  struct step {
    std::uint64_t file_offset;
    std::uint32_t into_offset;  // Distance from the target of the read's first byte.
    std::uint32_t bytes;
    friend bool operator==(const step&, const step&) = default;
  };

  // EINTR and EAGAIN repeat the read. After this many in a row without a byte of progress the read
  // fails.
  static constexpr unsigned retries_max = 1000;

  // `alignment` is the unit at which the read can resume: block_bytes for direct reads, else 1.
  read_cursor(const read_op& op, std::uint32_t alignment) noexcept
      : op_(op), alignment_(alignment) {}

  step first() const noexcept { return {op_.file_offset, 0, op_.bytes}; }

  // Takes the kernel's result for the last step: a byte count or a negative errno. Returns the next
  // step, or no step when all needed bytes have arrived.
  result<std::optional<step>> completed(int res);

  // File offset of the first missing byte, for error reports.
  std::uint64_t reached_offset() const noexcept { return op_.file_offset + reached_; }

  unsigned short_reads() const noexcept { return short_reads_; }
  unsigned retries() const noexcept { return retries_; }

 private:
  step resume() const noexcept {
    return {op_.file_offset + arrived_, arrived_, op_.bytes - arrived_};
  }

  const read_op op_;
  const std::uint32_t alignment_;
  std::uint32_t arrived_ = 0;  // Bytes that need not be requested again.
  std::uint32_t reached_ = 0;  // arrived_ plus the arrived bytes of the block after it.
  unsigned short_reads_ = 0;
  unsigned retries_ = 0;
  unsigned retries_in_a_row_ = 0;
};

}  // namespace ringload::inline v0
