// SPDX-License-Identifier: Apache-2.0
#pragma once

// Streams, events and memory of the device that give themselves back. All belong to the device that
// was current when they were made.

#include <cuda_runtime_api.h>

#include <boost/system/error_code.hpp>
#include <cstddef>
#include <utility>

#include "core/logged_allocation.hpp"
#include "device/cuda/runtime.hpp"

namespace ringload::inline v0::cuda {

class stream {
 public:
  stream() = default;
  stream(const stream&) = delete;
  stream& operator=(const stream&) = delete;
  ~stream() {
    if (is_) (void)code_of(cudaStreamDestroy(is_));
  }

  // One that waits for no other: not for the default stream either. Of the lowest priority, so that
  // the program's own kernels come first; on most devices that is the default one.
  boost::system::error_code open() {
    int lowest = 0;
    int highest = 0;
    if (auto failed = code_of(cudaDeviceGetStreamPriorityRange(&lowest, &highest))) return failed;
    auto failed = code_of(cudaStreamCreateWithPriority(&is_, cudaStreamNonBlocking, lowest));
    if (failed) is_ = nullptr;
    return failed;
  }

  explicit operator bool() const noexcept { return is_ != nullptr; }
  cudaStream_t get() const noexcept { return is_; }

 private:
  cudaStream_t is_ = nullptr;
};

class event {
 public:
  event() = default;
  event(event&& other) noexcept : is_(std::exchange(other.is_, nullptr)) {}
  event& operator=(event&& other) noexcept {
    std::swap(is_, other.is_);
    return *this;
  }
  ~event() {
    if (is_) (void)code_of(cudaEventDestroy(is_));
  }

  // One that a thread can sleep on.
  boost::system::error_code make() {
    auto failed =
        code_of(cudaEventCreateWithFlags(&is_, cudaEventDisableTiming | cudaEventBlockingSync));
    if (failed) is_ = nullptr;
    return failed;
  }

  boost::system::error_code record(cudaStream_t on) { return code_of(cudaEventRecord(is_, on)); }

  // Sleeps until all that was on the stream before the event has ended.
  boost::system::error_code wait() const { return code_of(cudaEventSynchronize(is_)); }

  cudaEvent_t get() const noexcept { return is_; }

 private:
  cudaEvent_t is_ = nullptr;
};

class device_buffer {
 public:
  device_buffer() = default;
  device_buffer(const device_buffer&) = delete;
  device_buffer& operator=(const device_buffer&) = delete;
  ~device_buffer() { give_back(); }

  boost::system::error_code take(std::size_t bytes, const allocation_log& log = {}) {
    auto failed = code_of(cudaMalloc(&is_, bytes));
    if (failed) is_ = nullptr;
    if (is_) logged_ = logged_allocation(log, {"cudaMalloc", "cudaFree"}, is_, bytes);
    return failed;
  }

  void give_back() noexcept {
    logged_.release();
    if (is_) (void)code_of(cudaFree(std::exchange(is_, nullptr)));
  }

  std::byte* data() const noexcept { return static_cast<std::byte*>(is_); }

 private:
  void* is_ = nullptr;
  logged_allocation logged_;
};

}  // namespace ringload::inline v0::cuda
