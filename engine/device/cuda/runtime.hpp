// SPDX-License-Identifier: Apache-2.0
#pragma once

// Wraps the CUDA runtime for the other files of this folder: converts errors to error codes, counts
// devices, and selects a device without side effects on threads of the program.

#include <cuda_runtime_api.h>

#include <boost/system/error_code.hpp>
#include <new>
#include <string>
#include <system_error>
#include <thread>

#include "base/fault.hpp"
#include "base/signals_blocked.hpp"

namespace ringload::inline v0::cuda {

// Converts the result of a CUDA call. Also clears the error that CUDA has stored for the thread,
// because a later, unrelated call would return the stored error.
boost::system::error_code code_of(cudaError_t status) noexcept;

// Returns true if `status` means that the device cannot run the kernels of ringload: no image suits
// the device, or the driver cannot compile the image for the device. The device can still make
// copies.
bool lacks_kernels(cudaError_t status) noexcept;

// Selects the device for a thread of the library. Afterwards, CUDA calls of this thread succeed
// even while another thread captures a graph, and do not invalidate the capture.
//
// Sets the device before any other call: a thread starts with device 0, and nearly every other call
// would create a context on device 0. A context takes half a GiB of memory, and device 0 may be a
// card that the loader must not use.
boost::system::error_code use_device(int index) noexcept;

// While this object exists, CUDA calls of its thread succeed during graph captures, and do not
// invalidate the captures. The current device of the thread must be a device that the loader uses,
// because the constructor may create a context on the current device.
class capture_guard {
 public:
  capture_guard() noexcept { exchange(); }
  capture_guard(const capture_guard&) = delete;
  capture_guard& operator=(const capture_guard&) = delete;
  ~capture_guard() { exchange(); }

 private:
  void exchange() noexcept { (void)code_of(cudaThreadExchangeStreamCaptureMode(&saved_mode_)); }

  cudaStreamCaptureMode saved_mode_ = cudaStreamCaptureModeRelaxed;
};

// Returns the number of devices, which is at least 1. If the machine has no device, returns
// errc::device_unavailable with the reason.
result<int> count_devices();

// Returns a name such as "cuda:0".
std::string name_of(int index);

// Returns a fault with the reason if the device does not exist.
result<void> check_device(int index);

// Runs `work()` with the device as the current device, or returns an error. If `work` throws
// std::bad_alloc, returns errc::memory_exceeded. `work` must throw nothing else. If another device
// is current, runs `work` in a new thread, so that the device of the calling thread does not
// change. Changing and restoring the current device could create an unneeded context.
template <class Work>
boost::system::error_code on_device(int index, Work work) {
  const auto run = [&work]() noexcept -> boost::system::error_code {
    try {
      work();
      return {};
    } catch (const std::bad_alloc&) {
      return errc::memory_exceeded;
    }
  };
  int current_index = -1;
  boost::system::error_code failed = code_of(cudaGetDevice(&current_index));
  if (!failed && current_index == index) {
    const capture_guard guard;
    return run();
  }
  try {
    const signals_blocked mask;
    std::thread([&] {
      failed = use_device(index);
      if (!failed) failed = run();
    }).join();
    return failed;
  } catch (const std::system_error& e) {
    return {e.code().value(), boost::system::system_category()};
  } catch (const std::bad_alloc&) {
    return errc::memory_exceeded;
  }
}

}  // namespace ringload::inline v0::cuda
