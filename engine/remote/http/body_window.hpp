// SPDX-License-Identifier: Apache-2.0
#pragma once

// Receives an HTTP body in order. Each read requests a part of the body and receives a copy of this
// part. Received bytes are kept in blocks for a while, because a read may start after its bytes
// were received. Does no I/O.
//
//   0 ... |  kept blocks  |  not yet received
//                         ^ position()
//
// A read receives its bytes in order. If the next byte of a read was received but is no longer
// kept, the read must wait until the body is received again from the first byte.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <span>
#include <vector>

namespace ringload::inline v0::remote_http {

// A part of the body and its destination. The caller must not move the object while a window has a
// pointer to the object.
struct wanted_part {
  std::uint64_t offset = 0;
  std::span<std::byte> into = {};
  std::uint64_t reached = 0;  // Number of bytes of `into` that are filled.

  std::uint64_t next() const noexcept { return offset + reached; }
  bool complete() const noexcept { return reached == into.size(); }
};

class body_window {
 public:
  // The window keeps the newest blocks, up to `kept_bytes_max` bytes. Blocks that were copied out
  // completely may be dropped earlier. If the body has at most `kept_bytes_max` bytes, the window
  // keeps the whole body.
  explicit body_window(std::uint64_t kept_bytes_max);

  // Sets the size of the body, or of its requested part. Must be called before next_buffer().
  void set_end(std::uint64_t bytes) noexcept { end_ = bytes; }
  // Keeps the whole body, even if the body has more than `kept_bytes_max` bytes.
  void keep_all() noexcept { kept_bytes_max_ = std::max(kept_bytes_max_, end_); }
  std::uint64_t end() const noexcept { return end_; }
  std::uint64_t position() const noexcept { return position_; }
  bool keeps_all() const noexcept { return end_ <= kept_bytes_max_; }

  // Restarts at the first byte. `failed` must be true if a transfer was interrupted. In this case,
  // take() counts only bytes that were not received before the restart. If `failed` is false,
  // take() counts all bytes again.
  void begin_anew(bool failed);

  // Copies the kept bytes to the part. Keeps a pointer to the part if the part is not complete.
  void add(wanted_part& part);
  void remove(wanted_part& part) noexcept;

  bool has_parts() const noexcept { return !parts_.empty(); }
  // Returns true if a part waits for a byte at or after position().
  bool has_parts_ahead() const noexcept;

  // Returns memory for the next bytes. Returns an empty span only at the end of the body.
  std::span<std::byte> next_buffer();
  // Accepts the next `bytes` received bytes. Moves the parts that are now complete to `complete`.
  // Returns how many of the bytes were received for the first time.
  std::uint64_t take(std::size_t bytes, std::vector<wanted_part*>& complete);

  // Estimates how many received bytes no read needs. If no part waits for the bytes of a take(),
  // the new bytes are added to the estimate. Otherwise the copied bytes are subtracted.
  std::uint64_t wasted_bytes() const noexcept { return wasted_bytes_; }

 private:
  struct block {
    std::uint64_t begin = 0;
    std::uint64_t taken = 0;  // Number of bytes that were copied to parts.
    std::size_t filled = 0;
    std::vector<std::byte> bytes;
  };

  void copy_kept(wanted_part& part);
  void drop_old();

  std::uint64_t kept_bytes_max_;
  const std::uint64_t block_bytes_;
  std::uint64_t end_ = 0;
  std::uint64_t position_ = 0;
  // Highest position so far, including positions before an interruption.
  std::uint64_t furthest_ = 0;
  std::uint64_t wasted_bytes_ = 0;
  std::deque<block> blocks_;  // In order of position. The newest block is last.
  std::uint64_t kept_bytes_ = 0;
  std::vector<wanted_part*> parts_;  // One entry for each incomplete read.
};

}  // namespace ringload::inline v0::remote_http
