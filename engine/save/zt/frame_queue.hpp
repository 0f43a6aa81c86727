// SPDX-License-Identifier: Apache-2.0
#pragma once

// Compresses chunks of bytes into zstd frames, in several threads. The frames are returned in the
// order of the chunks.

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

// All public functions must be called in the same thread.
class frame_queue {
 public:
  // Maximum number of uncompressed bytes in one frame. The window of zstd at level 3 has the same
  // size.
  static constexpr std::size_t chunk_bytes = std::size_t{2} << 20;
  static constexpr std::uint32_t encoders_max = 16;

  explicit frame_queue(std::uint32_t encoders);
  frame_queue(const frame_queue&) = delete;
  frame_queue& operator=(const frame_queue&) = delete;
  ~frame_queue();

  bool empty() const noexcept { return chunks_.empty(); }
  bool full() const noexcept { return chunks_.size() >= encoders_ + 2; }

  // Returns memory for a chunk of `bytes` bytes. The caller must fill the memory and then call
  // push().
  std::span<std::byte> next_buffer(std::size_t bytes);
  // Adds the chunk to the queue. `last` marks the last chunk of a component.
  void push(int level, bool last);

  struct frame {
    std::vector<std::byte> bytes;
    bool last = false;
  };
  // Waits until the oldest chunk is compressed, and returns its frame. The queue must not be empty.
  result<frame> take();

 private:
  struct chunk {
    std::vector<std::byte> in;
    std::vector<std::byte> out;
    bool last = false;
    int level = 0;
    // `encoded` and `outcome` are guarded by the mutex.
    bool encoded = false;
    result<void> outcome;
  };
  struct idle_encoder {
    int level;
    std::unique_ptr<zstd_frame_encoder> encoder;
  };

  void encode(chunk& current);
  result<void> encode_now(chunk& current);

  const std::uint32_t encoders_;
  // Used only by the thread that calls the public functions.
  std::vector<std::byte> next_;
  std::deque<std::unique_ptr<chunk>> chunks_;
  std::vector<std::vector<std::byte>> spare_;  // Memory of chunks that were taken.

  std::mutex mutex_;
  std::condition_variable encoded_;
  std::vector<idle_encoder> idle_;  // Guarded by the mutex.

  // Must be the last member, because its destructor joins the threads, which use the other members.
  threads workers_;
};

}  // namespace ringload::inline v0
