// SPDX-License-Identifier: Apache-2.0
#pragma once

// The CUDA runtime as the rest of this folder wants it: its errors as error codes, devices counted,
// and the right device set without disturbing a thread that is not ours.

#include <cuda_runtime_api.h>

#include <boost/system/error_code.hpp>
#include <string>
#include <system_error>
#include <thread>

#include "core/fault.hpp"

namespace ringload::inline v0::cuda {

// What a call said. An error also stays behind in the thread, where it would come up again in a
// call that has nothing to do with it; so it is taken away here.
boost::system::error_code code_of(cudaError_t said) noexcept;

// How many devices there are: at least one, or errc::device_unavailable and why.
result<int> count_devices();

// Runs `work()` where the device is the current one, or says why it cannot be. A thread of the user
// keeps the device that it had: setting it and setting it back would make a context on a device
// that it may never use, so work for another one is done in a thread of its own.
template <class Work>
boost::system::error_code on_device(int index, Work work) {
  int now = -1;
  boost::system::error_code failed = code_of(cudaGetDevice(&now));
  if (!failed && now == index) {
    work();
    return {};
  }
  const auto there = [&] {
    failed = code_of(cudaSetDevice(index));
    if (!failed) work();
  };
  try {
    std::thread(there).join();
  } catch (const std::system_error&) {
    there();
    if (now >= 0) (void)code_of(cudaSetDevice(now));
  }
  return failed;
}

}  // namespace ringload::inline v0::cuda
