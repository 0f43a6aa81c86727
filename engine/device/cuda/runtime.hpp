// SPDX-License-Identifier: Apache-2.0
#pragma once

// The CUDA runtime as the rest of this folder wants it: its errors as error codes, devices counted,
// and the right device set without disturbing a thread that is not ours.

#include <cuda_runtime_api.h>

#include <boost/system/error_code.hpp>
#include <new>
#include <string>
#include <system_error>
#include <thread>

#include "core/fault.hpp"
#include "core/signals_blocked.hpp"

namespace ringload::inline v0::cuda {

// What a call said. An error also stays behind in the thread, where it would come up again in a
// call that has nothing to do with it; so it is taken away here.
boost::system::error_code code_of(cudaError_t said) noexcept;

// For a thread of the library's own: from now on it works for this device. While some other thread
// of the process captures a graph, its calls neither fail nor invalidate what is captured.
//
// The device is set first: a thread begins on device 0, and nearly every other call would make a
// context there, half a GiB of a card that may be none of ours.
boost::system::error_code use_device(int index) noexcept;

// Lets a device read memory of another one, where the machine connects them, and says whether it
// can. It stays so until the process ends: others in it may rely on it. For a thread of the
// library's own, which works for that device from now on.
bool reaches(int index, int other) noexcept;

// For a thread of the user, whose device is set: its calls neither fail nor invalidate captures
// until this ends.
class beside_captures {
 public:
  beside_captures() noexcept { exchange(); }
  beside_captures(const beside_captures&) = delete;
  beside_captures& operator=(const beside_captures&) = delete;
  ~beside_captures() { exchange(); }

 private:
  void exchange() noexcept { (void)code_of(cudaThreadExchangeStreamCaptureMode(&other_)); }

  cudaStreamCaptureMode other_ = cudaStreamCaptureModeRelaxed;
};

// How many devices there are: at least one, or errc::device_unavailable and why.
result<int> count_devices();

// Runs `work()`, which does not throw, where the device is the current one, or says why it cannot
// be. A thread of the user
// keeps the device that it had: setting it and setting it back would make a context on a device
// that it may never use, so work for another one is done in a thread of its own.
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
    const signals_blocked here;
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
