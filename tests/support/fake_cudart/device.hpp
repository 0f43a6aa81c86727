// SPDX-License-Identifier: Apache-2.0
#pragma once

// The stand-in's device: streams, the thread that carries out what they hold, and the one in which
// host functions run, one after the other.

#include <cuda_runtime_api.h>

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "support/fake_cudart/device_memory.hpp"
#include "support/fake_cudart/kernel_launch.hpp"

namespace ringload::testing::fake_cudart {

struct event_state {
  int device = 0;
  std::uint64_t recorded = 0;  // How often it was put on a stream, and how often it was reached.
  std::uint64_t reached = 0;
};

// One thing on a stream: a copy, or a kernel, or an event reached, or one waited for, or a host
// function.
struct work {
  void* to = nullptr;
  const void* from = nullptr;
  std::size_t bytes = 0;
  bool to_host = false;
  int from_device = -1;  // Another device, whose memory is the source.
  std::shared_ptr<const kernel_launch> kernel;
  std::shared_ptr<event_state> reach;
  std::shared_ptr<event_state> await;
  std::uint64_t times = 0;  // Of the event: which of its recordings is meant.
  cudaHostFn_t call = nullptr;
  void* with = nullptr;

  bool moves_bytes() const noexcept { return from != nullptr || kernel; }
  bool may_run() const noexcept { return !await || await->reached >= times; }
};

struct stream_state {
  int device = 0;
  bool blocking = false;  // Ordered with the default stream of its device.
  std::deque<work> held;
  bool busy = false;  // Its host function is running.
};

// All that stands below is guarded by the mutex.
class device_side {
 public:
  // What a stream holds at most. Whoever puts more on it waits, as with a real driver's queues.
  static constexpr std::size_t held_max = 64;

  ~device_side() { stop(); }

  void stop();
  void start_if_needed();

  // Puts it on the stream, when there is room.
  void push(std::unique_lock<std::mutex>& lock, stream_state& on, work what);

  // Blocks until the stream holds nothing, or those of the device do; false if it never will.
  bool drain(std::unique_lock<std::mutex>& lock, const stream_state& which);
  bool drain_all(std::unique_lock<std::mutex>& lock, int device);

  // Whether what the streams hold still uses memory at these addresses.
  bool is_used(const void* begin, std::size_t bytes) const;

  void complain(const std::string& what) { misuse.push_back(what); }

  std::mutex mutex;
  std::condition_variable changed;
  device_memory memory;
  std::vector<std::shared_ptr<stream_state>> streams;  // Those destroyed too, until empty.
  std::vector<std::string> misuse;
  bool held = false;
  cudaError_t broken = cudaSuccess;
  unsigned copies_until_break = 0;  // 0: never.
  cudaError_t break_with = cudaSuccess;

 private:
  struct host_call {
    std::shared_ptr<stream_state> of;
    cudaHostFn_t call;
    void* with;
  };

  void run();
  void run_host_functions();
  std::shared_ptr<stream_state> choose();
  void carry_out(const std::shared_ptr<stream_state>& in);
  void copy(const work& what, int device);
  void copy_across(const work& what, int device);
  void launch(const kernel_launch& what, int device);

  std::deque<host_call> host_calls_;
  std::minstd_rand random_{1};
  std::thread thread_;
  std::thread host_functions_;
  bool stopping_ = false;
};

// Whether this thread runs a host function, in which no function of CUDA may be called.
extern thread_local bool in_host_function;

}  // namespace ringload::testing::fake_cudart
