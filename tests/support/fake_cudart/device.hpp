// SPDX-License-Identifier: Apache-2.0
#pragma once

// The stand-in's device: memory, streams, and the thread that carries out what they hold.

#include <cuda_runtime_api.h>

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "core/float_bits.hpp"

namespace ringload::testing::fake_cudart {

struct event_state {
  int device = 0;
  std::uint64_t recorded = 0;  // How often it was put on a stream, and how often it was reached.
  std::uint64_t reached = 0;
};

// One thing on a stream: a copy, which may convert, or an event reached, or one waited for, or a
// host function.
struct work {
  std::byte* to = nullptr;
  const std::byte* from = nullptr;
  std::size_t bytes = 0;  // Of the source.
  conversion as;
  std::shared_ptr<event_state> reach;
  std::shared_ptr<event_state> await;
  std::uint64_t times = 0;  // Of the event: which of its recordings is meant.
  cudaHostFn_t call = nullptr;
  void* with = nullptr;

  bool is_copy() const noexcept { return from != nullptr; }
  std::size_t bytes_written() const noexcept {
    return as.needed() ? bytes / as.from_bytes() * as.to_bytes() : bytes;
  }
  bool may_run() const noexcept { return !await || await->reached >= times; }
};

struct stream_state {
  int device = 0;
  std::deque<work> held;
  bool busy = false;  // Its host function is running.
};

// All that stands below is guarded by the mutex.
class device_side {
 public:
  ~device_side() { stop(); }

  void stop();
  void start_if_needed();

  // Blocks until the stream holds nothing; false if it never will.
  bool drain(std::unique_lock<std::mutex>& lock, stream_state& which);

  std::byte* allocate(std::size_t bytes, int device);
  bool give_back(std::byte* address);
  void forget_memory();
  // The bytes behind a range of device addresses; null where there are none.
  std::byte* behind(const std::byte* address, std::size_t bytes, int device);
  bool is_pinned(const std::byte* address, std::size_t bytes) const;
  std::size_t allocated(int device) const;
  void complain(const std::string& what) { misuse.push_back(what); }

  std::mutex mutex;
  std::condition_variable changed;
  std::vector<std::shared_ptr<stream_state>> streams;  // Those destroyed too, until empty.
  std::map<const std::byte*, std::size_t> pinned;
  std::vector<std::string> misuse;
  bool held = false;
  cudaError_t broken = cudaSuccess;
  unsigned copies_until_break = 0;  // 0: never.
  cudaError_t break_with = cudaSuccess;

 private:
  struct block {
    std::size_t bytes;
    std::size_t mapped_bytes;
    int device;
    std::vector<std::byte> memory;
  };

  void run();
  std::shared_ptr<stream_state> choose();
  void carry_out(std::unique_lock<std::mutex>& lock, stream_state& in);
  void copy(const work& what, int device);

  std::map<std::byte*, block> blocks_;
  std::minstd_rand random_{1};
  std::thread thread_;
  bool stopping_ = false;
};

}  // namespace ringload::testing::fake_cudart
