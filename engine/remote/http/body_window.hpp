// SPDX-License-Identifier: Apache-2.0
#pragma once

// A body that comes from its first byte to its last, and reads that want parts of it, in about that
// order. What has passed is kept for a while, in blocks: for reads that come a little late. Pure.
//
//   0 ... |  kept blocks  |  still to come
//                  ^ position()
//
// A read wants its bytes from its first to its last. If the next one has passed and is not kept, it
// is behind: only a body that begins anew has it.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <span>
#include <vector>

namespace ringload::inline v0::remote_http {

// A part of the body, and where it goes. In a window it stays where it is.
struct wanted_part {
  std::uint64_t offset = 0;
  std::span<std::byte> into = {};
  std::uint64_t reached = 0;  // Of into.

  std::uint64_t next() const noexcept { return offset + reached; }
  bool complete() const noexcept { return reached == into.size(); }
};

class body_window {
 public:
  // Blocks in which everything was wanted are kept for a moment only; of others the newest, up to
  // `kept_bytes_max`. A body that is not longer is kept as a whole.
  explicit body_window(std::uint64_t kept_bytes_max);

  // The body, or what is wanted of it, has `bytes` bytes. Before the first of them.
  void set_end(std::uint64_t bytes) noexcept { end_ = bytes; }
  // However much it is.
  void keep_all() noexcept { kept_bytes_max_ = std::max(kept_bytes_max_, end_); }
  std::uint64_t end() const noexcept { return end_; }
  std::uint64_t position() const noexcept { return position_; }
  bool keeps_all() const noexcept { return end_ <= kept_bytes_max_; }

  // The next byte that comes is the first again. `failed`: because the body broke off, so nothing
  // up to there is counted a second time.
  void begin_anew(bool failed);

  // Copies what is kept of it; then, unless it is complete, keeps a pointer to it.
  void add(wanted_part& one);
  void remove(wanted_part& one) noexcept;

  bool any() const noexcept { return !parts_.empty(); }
  // Whether somebody waits for a byte that is still to come.
  bool any_ahead() const noexcept;

  // Where the next bytes are to be received: not empty before the end.
  std::span<std::byte> room();
  // So many have been; appends the parts that are complete now, which are removed. Returns how many
  // had never come before.
  std::uint64_t take(std::size_t bytes, std::vector<wanted_part*>& complete);

  // Bytes that were received though nobody waited for them, less those that somebody did.
  std::uint64_t wasted_bytes() const noexcept { return wasted_bytes_; }

 private:
  struct block {
    std::uint64_t begin = 0;
    std::uint64_t taken = 0;  // Bytes that were copied out.
    std::size_t filled = 0;
    std::vector<std::byte> bytes;
  };

  void copy_kept(wanted_part& one);
  void drop_old();

  std::uint64_t kept_bytes_max_;
  const std::uint64_t block_bytes_;
  std::uint64_t end_ = 0;
  std::uint64_t position_ = 0;
  std::uint64_t furthest_ = 0;  // Where the body was before it broke off, or is now.
  std::uint64_t wasted_bytes_ = 0;
  std::deque<block> kept_;  // The newest last.
  std::uint64_t kept_bytes_ = 0;
  std::vector<wanted_part*> parts_;  // As many as reads are in flight.
};

}  // namespace ringload::inline v0::remote_http
