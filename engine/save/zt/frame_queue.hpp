// SPDX-License-Identifier: Apache-2.0
#pragma once

// Takes chunks and returns zstd frames in the same order. Several threads encode at once.

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "base/fault.hpp"
#include "formats/codec/zstd_frame.hpp"
#include "io/threads.hpp"

namespace ringload::inline v0 {

// Must be used by one thread.
class frame_queue {
 public:
  // The bytes of one frame, as much as level 3 looks back.
  static constexpr std::size_t chunk_bytes = std::size_t{2} << 20;
  static constexpr std::uint32_t encoders_max = 16;

  explicit frame_queue(std::uint32_t encoders);
  frame_queue(const frame_queue&) = delete;
  frame_queue& operator=(const frame_queue&) = delete;
  ~frame_queue();

  bool empty() const noexcept { return chunks_.empty(); }
  // If true, take() must be called before the next push().
  bool full() const noexcept { return chunks_.size() >= encoders_ + 2; }

  // Returns memory for a chunk of `bytes` bytes, which the caller fills and pushes.
  std::span<std::byte> room(std::size_t bytes);
  // Pushes the chunk. `last` marks the last chunk of a stream.
  void push(int level, bool last);

  struct frame {
    std::vector<std::byte> bytes;
    bool last = false;
  };
  // Returns the oldest frame after its encoding. The queue must not be empty.
  result<frame> take();

 private:
  struct chunk {
    std::vector<std::byte> in;
    std::vector<std::byte> out;
    bool last = false;
    int level = 0;
    bool encoded = false;  // Guarded by the mutex, like `outcome`.
    result<void> outcome;
  };
  struct idle_encoder {
    int level;
    std::unique_ptr<zstd_frame_encoder> encoder;
  };

  void encode(chunk& current);
  result<void> encode_now(chunk& current);

  const std::uint32_t encoders_;
  // Used only by the thread of the user.
  std::vector<std::byte> next_;
  std::deque<std::unique_ptr<chunk>> chunks_;
  std::vector<std::vector<std::byte>> spare_;  // Memory of finished chunks.

  std::mutex mutex_;
  std::condition_variable encoded_;
  std::vector<idle_encoder> idle_;  // Guarded by the mutex.

  // Last member, because the threads use the members above until they are joined.
  threads workers_;
};

}  // namespace ringload::inline v0
