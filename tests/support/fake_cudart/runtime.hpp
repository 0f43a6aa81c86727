// SPDX-License-Identifier: Apache-2.0
#pragma once

// The state of the stand-in: resources, counts and requested failures.

#include <cuda_runtime_api.h>

#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "support/certain_memory.hpp"
#include "support/fake_cudart/device.hpp"
#include "support/fake_cudart/fake_cudart.hpp"

struct CUstream_st {
  std::shared_ptr<ringload::testing::fake_cudart::stream_state> state;
};

struct CUevent_st {
  std::shared_ptr<ringload::testing::fake_cudart::event_state> state;
};

struct CUgraph_st {};

namespace ringload::testing::fake_cudart {

// A graph that is being captured.
struct capture {
  cudaStream_t stream;
  cudaStreamCaptureMode mode;
  std::thread::id by;
  bool invalidated = false;
};

struct runtime {
  device_side device;

  // Guarded by device.mutex.
  std::map<std::string, unsigned> counts;
  // By function and number of the call.
  std::map<std::pair<std::string, unsigned>, cudaError_t> failures;
  std::set<CUstream_st*> streams;
  std::set<CUevent_st*> events;
  std::map<int, std::shared_ptr<stream_state>> default_streams;
  std::vector<capture> captures;
  std::set<int> contexts;
  std::set<std::pair<int, int>> reaches;  // The first device may read memory of the second.
  bool connected = true;                  // False if the devices cannot access each other.
  bool is_integrated = false;
  bytes_moved moved;
  std::set<std::pair<int, const void*>> loaded_kernels;
  cudaError_t count_says = cudaSuccess;
  int driver_version = 13000;
  int device_count = devices;
  bool free_waits = true;
  bool pageable_expected = false;
};

runtime& the();

// The state of the runtime for each thread.
extern thread_local int current_device;
extern thread_local cudaError_t last_error;
extern thread_local cudaStreamCaptureMode capture_mode;

// One call of the runtime.
class call {
 public:
  explicit call(const char* name);
  ~call() { the().device.changed.notify_all(); }

  bool failed() const noexcept { return failed_ != cudaSuccess; }

  // Returns the result, or the requested failure.
  cudaError_t says(cudaError_t answer = cudaSuccess) const noexcept;

  // The same for a function of the driver, which stores no error.
  int says_driver(cudaError_t answer = cudaSuccess) const noexcept {
    return failed() ? failed_ : answer;
  }

  void complain(const std::string& complaint) const {
    the().device.complain(name_ + ": " + complaint);
  }

  // Returns true if the stream exists.
  bool is_known(CUstream_st* stream) const;
  // Returns true if this thread may use the stream now.
  bool may_use(CUstream_st* stream) const;

  // Returns the state of the stream. Null means the default stream of the current device, which
  // waits for its blocking streams, and vice versa. Empty if a capture forbids this.
  std::shared_ptr<stream_state> state_of(CUstream_st* stream);

  // Waits until the current device has no work, if calls that free do so.
  void wait_for_device();

  // Adds the task to the stream, or to the graph if the stream is being captured.
  void push(CUstream_st* stream, work what);

  const certain_memory for_the_stand_in;
  std::unique_lock<std::mutex> lock;

 private:
  void fail_beside_captures();
  void await_all_of(stream_state& first, stream_state& then);

  std::string name_;
  cudaError_t failed_ = cudaSuccess;
};

}  // namespace ringload::testing::fake_cudart
