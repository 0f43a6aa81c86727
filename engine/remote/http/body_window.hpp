// SPDX-License-Identifier: Apache-2.0
#pragma once

// A body that is received in order, and reads of its parts in about the same order. Received bytes
// are kept in blocks for a while, for reads that start a little late. Pure.
//
//   0 ... |  kept blocks  |  not yet received
//                         ^ position()
//
// A read takes its bytes in order. If the next byte was received and is not kept, the read must
// wait until the body is received again from its first byte.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <span>
#include <vector>

namespace ringload::inline v0::remote_http {

// A part of the body and its destination. The address must not change while a window has the part.
struct wanted_part {
  std::uint64_t offset = 0;
  std::span<std::byte> into = {};
  std::uint64_t reached = 0;  // Bytes of `into` that are filled.

  std::uint64_t next() const noexcept { return offset + reached; }
  bool complete() const noexcept { return reached == into.size(); }
};

class body_window {
 public:
  // Keeps the newest blocks, up to `kept_bytes_max`. Blocks that were copied out completely are
  // dropped early. A body of at most `kept_bytes_max` bytes is kept as a whole.
  explicit body_window(std::uint64_t kept_bytes_max);

  // Sets the size of the body, or of its requested part. Call before the first byte.
  void set_end(std::uint64_t bytes) noexcept { end_ = bytes; }
  // Keeps the whole body, whatever its size.
  void keep_all() noexcept { kept_bytes_max_ = std::max(kept_bytes_max_, end_); }
  std::uint64_t end() const noexcept { return end_; }
  std::uint64_t position() const noexcept { return position_; }
  bool keeps_all() const noexcept { return end_ <= kept_bytes_max_; }

  // Restarts at the first byte. If `failed` is set, the body was interrupted: take() does not count
  // the bytes before the interruption again.
  void begin_anew(bool failed);

  // Copies the kept bytes of the part. If the part is not complete, keeps a pointer to it.
  void add(wanted_part& part);
  void remove(wanted_part& part) noexcept;

  bool has_parts() const noexcept { return !parts_.empty(); }
  // Returns true if a part waits for a byte that is not yet received.
  bool has_parts_ahead() const noexcept;

  // Memory for the next bytes; not empty before the end.
  std::span<std::byte> room();
  // Accepts `bytes` received bytes. Removes the parts that are complete now and appends them to
  // `complete`. Returns the number of bytes that were received for the first time.
  std::uint64_t take(std::size_t bytes, std::vector<wanted_part*>& complete);

  // Received bytes that no part waited for, less the bytes that a part waited for.
  std::uint64_t wasted_bytes() const noexcept { return wasted_bytes_; }

 private:
  struct block {
    std::uint64_t begin = 0;
    std::uint64_t taken = 0;  // Bytes that were copied to parts.
    std::size_t filled = 0;
    std::vector<std::byte> bytes;
  };

  void copy_kept(wanted_part& part);
  void drop_old();

  std::uint64_t kept_bytes_max_;
  const std::uint64_t block_bytes_;
  std::uint64_t end_ = 0;
  std::uint64_t position_ = 0;
  std::uint64_t furthest_ = 0;  // Highest position so far, also before an interruption.
  std::uint64_t wasted_bytes_ = 0;
  std::deque<block> kept_;  // In order; the newest block is last.
  std::uint64_t kept_bytes_ = 0;
  std::vector<wanted_part*> parts_;  // One entry a read in flight.
};

}  // namespace ringload::inline v0::remote_http
