// SPDX-License-Identifier: Apache-2.0
#pragma once

// The device of the stand-in: streams, a thread that carries out their tasks, and a thread that
// runs the host functions one after another.

#include <cuda_runtime_api.h>

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "support/fake_cudart/choices.hpp"
#include "support/fake_cudart/device_memory.hpp"
#include "support/fake_cudart/kernel_launch.hpp"

namespace ringload::testing::fake_cudart {

struct event_state {
  int device = 0;
  std::uint64_t recorded = 0;  // How often the event was recorded, and how often it was reached.
  std::uint64_t reached = 0;
};

// A task of a stream: a copy, a kernel, a recorded event, a wait for an event, or a host function.
struct work {
  void* to = nullptr;
  const void* from = nullptr;
  std::size_t bytes = 0;
  bool to_host = false;
  int from_device = -1;        // Another device, whose memory is the source.
  bool within_device = false;  // The source is memory of the same device.
  // A copy within the device may have rows of `bytes` bytes.
  std::size_t rows = 1;
  std::size_t from_stride = 0;
  std::size_t to_stride = 0;
  bool clears = false;  // Sets `bytes` bytes to 0.
  std::shared_ptr<const kernel_launch> kernel;
  std::shared_ptr<event_state> reach;
  std::shared_ptr<event_state> await;
  std::uint64_t times = 0;  // The number of the recording of the event.
  cudaHostFn_t call = nullptr;
  void* with = nullptr;

  std::size_t from_bytes() const noexcept { return (rows - 1) * from_stride + bytes; }
  std::size_t to_bytes() const noexcept { return (rows - 1) * to_stride + bytes; }
  bool moves_bytes() const noexcept { return from != nullptr || clears || kernel; }
  bool may_run() const noexcept { return !await || await->reached >= times; }
};

struct stream_state {
  int device = 0;
  bool blocking = false;  // Ordered with the default stream of its device.
  std::deque<work> held;
  bool busy = false;  // Its host function is running.
  // The first task is carried out, or ends, not before this time. Empty before the task can run.
  std::optional<std::chrono::steady_clock::time_point> due;
  bool is_carried_out = false;  // The first task has copied its bytes, but has not ended.
};

// The mutex guards all members below.
class device_side {
 public:
  // Maximum number of tasks of a stream. Adding more tasks blocks, as in a real driver.
  static constexpr std::size_t held_max = 64;

  ~device_side() { stop(); }

  void stop();
  void start_if_needed();

  // Adds the task to the stream. Waits if the stream is full.
  void push(std::unique_lock<std::mutex>& lock, stream_state& on, work what);

  // Blocks until the stream, or all streams of the device, have no task. Returns false if this will
  // never happen.
  bool drain(std::unique_lock<std::mutex>& lock, const stream_state& which);
  bool drain_all(std::unique_lock<std::mutex>& lock, int device);

  // Returns true if a task of a stream uses memory at these addresses.
  bool is_used(const void* begin, std::size_t bytes) const;

  void complain(const std::string& complaint) {
    misuse.push_back(complaint);
    chosen_by->misused(complaint);
  }

  std::mutex mutex;
  std::condition_variable changed;
  device_memory memory;
  // Includes destroyed streams until they are empty.
  std::vector<std::shared_ptr<stream_state>> streams;
  std::vector<std::string> misuse;
  bool held = false;
  bool holds_kernels = false;
  bool damages_across = false;  // Each copy between two devices damages its last byte.
  bool stuck_across = false;    // No copy between two devices begins.
  cudaError_t broken = cudaSuccess;
  unsigned copies_until_break = 0;  // 0 means never.
  cudaError_t break_with = cudaSuccess;
  choices by_default;
  choices* chosen_by = &by_default;

 private:
  using clock = std::chrono::steady_clock;

  struct host_call {
    std::shared_ptr<stream_state> of;
    cudaHostFn_t call;
    void* with;
  };

  void run();
  void run_host_functions();
  void check_order(const stream_state& on, const work& added);
  bool may_advance(const stream_state& stream) const;
  std::shared_ptr<stream_state> choose(clock::time_point now, clock::time_point& next);
  void advance(const std::shared_ptr<stream_state>& in, clock::time_point now);
  void carry_out(const work& what, const std::shared_ptr<stream_state>& in);
  void copy(const work& what, int device);
  void copy_across(const work& what, int device);
  void copy_within(const work& what, int device);
  void clear(const work& what, int device);
  void launch(const kernel_launch& what, int device);

  std::deque<host_call> host_calls_;
  std::thread thread_;
  std::thread host_functions_;
  bool stopping_ = false;
};

// True if this thread runs a host function, which must not call CUDA.
extern thread_local bool in_host_function;

}  // namespace ringload::testing::fake_cudart
