// SPDX-License-Identifier: Apache-2.0

#include <ringload/c_cuda.h>

#include <ringload/cuda.hpp>
#include <ringload/nccl.hpp>

#include "c/group.hpp"
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

ringload_status ringload_nccl_group(ringload_group* hosts, int device, void* stream,
                                    const char* library, uint32_t milliseconds,
                                    ringload_group** result) {
  return guarded([&] {
    required(result, "the output pointer for the group is null") = nullptr;
    const ringload_group& host_group = required(hosts, "the handle of the group is null");
    *result = new ringload_group{ringload::nccl_group(host_group.value, device, stream,
                                                      library != nullptr ? library : "libnccl.so.2",
                                                      group_timeout_of(milliseconds))};
    return RINGLOAD_OK;
  });
}
