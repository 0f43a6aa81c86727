// SPDX-License-Identifier: Apache-2.0

#include <ringload/c_cuda.h>

#include <ringload/cuda.hpp>

#include "c/handles.hpp"
#include "c/status.hpp"

using namespace ringload::c;

ringload_status ringload_cuda_device(int index, ringload_device** device) {
  return guarded([&] {
    required(device, "the output pointer for the device is null") = nullptr;
    *device = new ringload_device{ringload::cuda_device(index)};
    return RINGLOAD_OK;
  });
}

ringload_status ringload_shared_cuda_device(int index, ringload_device** device) {
  return guarded([&] {
    required(device, "the output pointer for the device is null") = nullptr;
    *device = new ringload_device{ringload::shared_cuda_device(index)};
    return RINGLOAD_OK;
  });
}

int ringload_cuda_device_count(void) { return ringload::cuda_device_count(); }
