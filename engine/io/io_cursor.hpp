// SPDX-License-Identifier: Apache-2.0
#pragma once

// Tracks the progress of one read or write. The kernel may transfer the bytes in several steps.

#include <cstdint>
#include <optional>

#include "base/fault.hpp"

namespace ringload::inline v0 {

class io_cursor {
 public:
  struct step {
    std::uint64_t file_offset;
    std::uint32_t memory_offset;
    std::uint32_t bytes;
    friend bool operator==(const step&, const step&) = default;
  };

  // A step that fails with EINTR or EAGAIN is repeated. If this number of steps in a row transfers
  // no byte, the read or write fails.
  static constexpr unsigned retries_max = 1000;

  // A read is complete when `bytes_needed` bytes are transferred, because the file may end after
  // these bytes. A read or write can resume only at multiples of `unit`: block_bytes for direct
  // I/O, otherwise 1.
  static io_cursor read(std::uint64_t file_offset, std::uint32_t bytes, std::uint32_t bytes_needed,
                        std::uint32_t unit) noexcept {
    return {file_offset, bytes, bytes_needed, unit, false};
  }
  static io_cursor write(std::uint64_t file_offset, std::uint32_t bytes,
                         std::uint32_t unit) noexcept {
    return {file_offset, bytes, bytes, unit, true};
  }

  step first() const noexcept { return resume(); }

  // Accepts the result of the last step from the kernel: a number of bytes, or a negative errno.
  // Returns the next step. Returns an empty optional when all needed bytes are transferred.
  result<std::optional<step>> completed(int res);

  // Returns the file offset of the first missing byte, for error texts.
  std::uint64_t reached_offset() const noexcept { return file_offset_ + reached_; }

  unsigned short_transfers() const noexcept { return short_transfers_; }
  unsigned retries() const noexcept { return retries_; }

 private:
  io_cursor(std::uint64_t file_offset, std::uint32_t bytes, std::uint32_t bytes_needed,
            std::uint32_t unit, bool is_write) noexcept
      : file_offset_(file_offset),
        bytes_(bytes),
        bytes_needed_(bytes_needed),
        unit_(unit),
        is_write_(is_write) {}

  step resume() const noexcept {
    return {file_offset_ + resumable_, resumable_, bytes_ - resumable_};
  }

  std::uint64_t file_offset_;
  std::uint32_t bytes_;
  std::uint32_t bytes_needed_;
  std::uint32_t unit_;
  bool is_write_;
  bool stalled_ = false;         // True if the last write transferred no whole unit.
  std::uint32_t resumable_ = 0;  // Offset of the next step within the transfer.
  // Number of transferred bytes: `resumable_`, plus the bytes of an incomplete last unit.
  std::uint32_t reached_ = 0;
  unsigned short_transfers_ = 0;
  unsigned retries_ = 0;
  unsigned retries_in_a_row_ = 0;
};

}  // namespace ringload::inline v0
