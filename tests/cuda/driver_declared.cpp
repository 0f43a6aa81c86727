// SPDX-License-Identifier: Apache-2.0

// Compares the driver declarations of ringload_cuda with those of the toolkit.

#include <cuda.h>

#include <cstddef>
#include <type_traits>

#include "device/cuda/driver_functions.hpp"

namespace ringload::cuda::driver {

static_assert(sizeof(allocation_properties) == sizeof(CUmemAllocationProp));
static_assert(offsetof(allocation_properties, handle_types) ==
              offsetof(CUmemAllocationProp, requestedHandleTypes));
static_assert(offsetof(allocation_properties, where) == offsetof(CUmemAllocationProp, location));
static_assert(offsetof(allocation_properties, windows_attributes) ==
              offsetof(CUmemAllocationProp, win32HandleMetaData));
static_assert(offsetof(allocation_properties, compression) ==
              offsetof(CUmemAllocationProp, allocFlags));
static_assert(sizeof(location) == sizeof(CUmemLocation));
static_assert(offsetof(location, id) == offsetof(CUmemLocation, id));
static_assert(sizeof(access_description) == sizeof(CUmemAccessDesc));
static_assert(offsetof(access_description, allowed) == offsetof(CUmemAccessDesc, flags));
static_assert(sizeof(uuid) == sizeof(CUuuid));
static_assert(std::is_same_v<device_address, CUdeviceptr>);
static_assert(std::is_same_v<allocation_handle, CUmemGenericAllocationHandle>);
static_assert(on_device == CU_MEM_LOCATION_TYPE_DEVICE);
static_assert(pinned_allocation == CU_MEM_ALLOCATION_TYPE_PINNED);
static_assert(posix_descriptor == CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
static_assert(static_cast<int>(access::read) == CU_MEM_ACCESS_FLAGS_PROT_READ);
static_assert(static_cast<int>(access::read_write) == CU_MEM_ACCESS_FLAGS_PROT_READWRITE);

}  // namespace ringload::cuda::driver
