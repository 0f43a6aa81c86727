// SPDX-License-Identifier: Apache-2.0
#pragma once

// Wraps the CUDA runtime for this folder: converts its errors to error codes, counts devices, and
// selects a device without disturbing threads of the program.

#include <cuda_runtime_api.h>

#include <boost/system/error_code.hpp>
#include <new>
#include <string>
#include <system_error>
#include <thread>

#include "base/fault.hpp"
#include "base/signals_blocked.hpp"

namespace ringload::inline v0::cuda {

// Converts the result of a call. CUDA also keeps an error in the thread, where an unrelated call
// would report it again, so the error is removed here.
boost::system::error_code code_of(cudaError_t status) noexcept;

// Selects the device for a library thread. While another thread of the process captures a graph,
// calls of this thread neither fail nor invalidate the capture.
//
// The device is set first. A thread begins on device 0, and nearly every other call would create a
// context there, which takes half a GiB of a card that the loader may not use.
boost::system::error_code use_device(int index) noexcept;

// Lets a device read memory of another device if the machine connects them, and returns whether it
// can. The access stays until the process ends, because other code may rely on it. Only for library
// threads; selects device `index`.
bool reaches(int index, int peer) noexcept;

// For a thread of the user with its device already set: its calls neither fail nor invalidate
// captures while this object exists.
class beside_captures {
 public:
  beside_captures() noexcept { exchange(); }
  beside_captures(const beside_captures&) = delete;
  beside_captures& operator=(const beside_captures&) = delete;
  ~beside_captures() { exchange(); }

 private:
  void exchange() noexcept { (void)code_of(cudaThreadExchangeStreamCaptureMode(&saved_mode_)); }

  cudaStreamCaptureMode saved_mode_ = cudaStreamCaptureModeRelaxed;
};

// Returns the number of devices, at least one, or errc::device_unavailable with the reason.
result<int> count_devices();

// Runs `work()`, which must not throw, with the device as the current one, or returns why that
// failed. A thread of the user keeps its device: setting it and setting it back would create a
// context on a device that the program may never use. So work for another device runs in a thread
// of its own.
template <class Work>
boost::system::error_code on_device(int index, Work work) {
  int now = -1;
  boost::system::error_code failed = code_of(cudaGetDevice(&now));
  if (!failed && now == index) {
    const beside_captures meanwhile;
    work();
    return {};
  }
  try {
    const signals_blocked mask;
    std::thread([&] {
      failed = use_device(index);
      if (!failed) work();
    }).join();
    return failed;
  } catch (const std::system_error& e) {
    return {e.code().value(), boost::system::system_category()};
  } catch (const std::bad_alloc&) {
    return errc::memory_exceeded;
  }
}

}  // namespace ringload::inline v0::cuda
