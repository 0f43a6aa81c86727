// SPDX-License-Identifier: Apache-2.0
#pragma once

// RAII wrappers for CUDA streams, events and memory. Each object belongs to the device that was
// current when the object was opened.

#include <cuda_runtime_api.h>

#include <boost/system/error_code.hpp>
#include <cstddef>
#include <utility>

#include "base/logged_allocation.hpp"
#include "device/cuda/runtime.hpp"

namespace ringload::inline v0::cuda {

class stream {
 public:
  stream() = default;
  stream(const stream&) = delete;
  stream& operator=(const stream&) = delete;
  ~stream() {
    if (stream_) (void)code_of(cudaStreamDestroy(stream_));
  }

  // Opens a stream that waits for no other stream, not even for the default stream. The stream has
  // the lowest priority, so that kernels of the program run first.
  boost::system::error_code open() {
    int lowest = 0;
    int highest = 0;
    if (auto failed = code_of(cudaDeviceGetStreamPriorityRange(&lowest, &highest))) return failed;
    auto failed = code_of(cudaStreamCreateWithPriority(&stream_, cudaStreamNonBlocking, lowest));
    if (failed) stream_ = nullptr;
    return failed;
  }

  explicit operator bool() const noexcept { return stream_ != nullptr; }
  cudaStream_t get() const noexcept { return stream_; }

 private:
  cudaStream_t stream_ = nullptr;
};

class event {
 public:
  event() = default;
  event(event&& source) noexcept : event_(std::exchange(source.event_, nullptr)) {}
  event& operator=(event&& source) noexcept {
    std::swap(event_, source.event_);
    return *this;
  }
  ~event() {
    if (event_) (void)code_of(cudaEventDestroy(event_));
  }

  // Creates an event. A thread that waits for the event sleeps, and uses no processor time.
  boost::system::error_code make() {
    auto failed =
        code_of(cudaEventCreateWithFlags(&event_, cudaEventDisableTiming | cudaEventBlockingSync));
    if (failed) event_ = nullptr;
    return failed;
  }

  boost::system::error_code record(cudaStream_t on) { return code_of(cudaEventRecord(event_, on)); }

  // Sleeps until all work before the event has ended.
  boost::system::error_code wait() const { return code_of(cudaEventSynchronize(event_)); }

  cudaEvent_t get() const noexcept { return event_; }

 private:
  cudaEvent_t event_ = nullptr;
};

class device_buffer {
 public:
  device_buffer() = default;
  device_buffer(const device_buffer&) = delete;
  device_buffer& operator=(const device_buffer&) = delete;
  ~device_buffer() { give_back(); }

  boost::system::error_code take(std::size_t bytes, const allocation_log& log = {}) {
    auto failed = code_of(cudaMalloc(&memory_, bytes));
    if (failed) memory_ = nullptr;
    if (memory_) logged_ = logged_allocation(log, {"cudaMalloc", "cudaFree"}, memory_, bytes);
    return failed;
  }

  void give_back() noexcept {
    logged_.release();
    if (memory_) (void)code_of(cudaFree(std::exchange(memory_, nullptr)));
  }

  // Leaves the memory allocated until the process ends. The log receives no row for the release.
  void leak() noexcept {
    logged_.forget();
    memory_ = nullptr;
  }

  std::byte* data() const noexcept { return static_cast<std::byte*>(memory_); }

 private:
  void* memory_ = nullptr;
  logged_allocation logged_;
};

}  // namespace ringload::inline v0::cuda
