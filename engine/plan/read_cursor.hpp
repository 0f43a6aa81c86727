// SPDX-License-Identifier: Apache-2.0
#pragma once

// How far one read of a plan has come, when the kernel gives it in pieces.

#include <cstdint>
#include <optional>

#include "core/fault.hpp"
#include "plan/plan.hpp"

namespace ringload::inline v0 {

class read_cursor {
 public:
  struct step {
    std::uint64_t file_offset;
    std::uint32_t into_offset;  // From where the read's first byte goes.
    std::uint32_t bytes;
    friend bool operator==(const step&, const step&) = default;
  };

  // EINTR and EAGAIN say "again"; a read that hears it this often in a row without a byte of
  // progress has failed.
  static constexpr unsigned retries_max = 1000;

  // `alignment` is the unit in which the read can be resumed: block_bytes for direct reads, 1 else.
  read_cursor(const read_op& op, std::uint32_t alignment) noexcept
      : op_(op), alignment_(alignment) {}

  step first() const noexcept { return {op_.file_offset, 0, op_.bytes}; }

  // Takes what the kernel said of the last step, a number of bytes or a negative errno. Gives the
  // next step, or nothing when all that is needed has arrived.
  result<std::optional<step>> completed(int res);

  // The first byte of the file that has not come: where a fault is.
  std::uint64_t reached_offset() const noexcept { return op_.file_offset + reached_; }

  unsigned short_reads() const noexcept { return short_reads_; }
  unsigned retries() const noexcept { return retries_; }

 private:
  step resume() const noexcept {
    return {op_.file_offset + arrived_, arrived_, op_.bytes - arrived_};
  }

  const read_op op_;
  const std::uint32_t alignment_;
  std::uint32_t arrived_ = 0;  // Bytes that need not be asked for again.
  std::uint32_t reached_ = 0;  // That, and what arrived of the block after.
  unsigned short_reads_ = 0;
  unsigned retries_ = 0;
  unsigned retries_in_a_row_ = 0;
};

}  // namespace ringload::inline v0
