// SPDX-License-Identifier: Apache-2.0
#pragma once

// Chunks in, zstd frames out, in the order in which they came; several threads encode at once.

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "core/fault.hpp"
#include "encoding/zstd_frame.hpp"
#include "readers/threads.hpp"

namespace ringload::inline v0 {

// Used by one thread.
class frame_queue {
 public:
  // What becomes one frame: as much as level 3 looks back.
  static constexpr std::size_t chunk_bytes = std::size_t{2} << 20;
  static constexpr std::uint32_t encoders_max = 16;

  explicit frame_queue(std::uint32_t encoders);
  frame_queue(const frame_queue&) = delete;
  frame_queue& operator=(const frame_queue&) = delete;
  ~frame_queue();

  bool empty() const noexcept { return chunks_.empty(); }
  // Before the next push() a frame must be taken.
  bool full() const noexcept { return chunks_.size() >= encoders_ + 2; }

  // Room for a chunk of so many bytes, to be filled and pushed.
  std::span<std::byte> room(std::size_t bytes);
  // `last`: of its stream.
  void push(int level, bool last);

  struct frame {
    std::vector<std::byte> bytes;
    bool last = false;
  };
  // The oldest, once it is encoded.
  result<frame> take();

 private:
  struct chunk {
    std::vector<std::byte> in;
    std::vector<std::byte> out;
    bool last = false;
    int level = 0;
    bool encoded = false;  // Guarded by the mutex, as is the next.
    result<void> outcome;
  };
  struct idle_encoder {
    int level;
    std::unique_ptr<zstd_frame_encoder> with;
  };

  void encode(chunk& one);
  result<void> encode_now(chunk& one);

  const std::uint32_t encoders_;
  // Touched by the user's thread only.
  std::vector<std::byte> next_;
  std::deque<std::unique_ptr<chunk>> chunks_;
  std::vector<std::vector<std::byte>> spare_;  // Memory of chunks that are gone.

  std::mutex mutex_;
  std::condition_variable encoded_;
  std::vector<idle_encoder> idle_;  // Guarded by the mutex.

  threads workers_;  // Last: they use the above until they are joined.
};

}  // namespace ringload::inline v0
