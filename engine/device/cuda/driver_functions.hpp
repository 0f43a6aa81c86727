// SPDX-License-Identifier: Apache-2.0
#pragma once

// Declares the functions of the CUDA driver that ringload uses. The declarations are valid for CUDA
// 12 and later. tests/cuda/CMakeLists.txt compares the declarations with the cuda.h of a toolkit.

#include <boost/system/error_code.hpp>
#include <cstddef>

namespace ringload::inline v0::cuda::driver {

using status = int;  // Has the values of cudaError_t.
using device_address = unsigned long long;
using allocation_handle = unsigned long long;

struct location {
  int type;
  int id;
};
inline constexpr int on_device = 1;

struct allocation_properties {
  int type;
  int handle_types;
  location where;
  void* windows_attributes;
  unsigned char compression;
  unsigned char is_rdma_capable;
  unsigned short usage;
  unsigned char reserved[4];
};
inline constexpr int pinned_allocation = 1;
inline constexpr int posix_descriptor = 1;

enum class access : int { read = 1, read_write = 3 };

struct access_description {
  location where;
  access allowed;
};

struct uuid {
  unsigned char bytes[16];
};

struct functions {
  status (*cuMemGetAllocationGranularity)(std::size_t* granularity,
                                          const allocation_properties* properties,
                                          int option) = nullptr;
  status (*cuMemCreate)(allocation_handle* handle, std::size_t bytes,
                        const allocation_properties* properties,
                        unsigned long long flags) = nullptr;
  status (*cuMemRelease)(allocation_handle handle) = nullptr;
  status (*cuMemAddressReserve)(device_address* address, std::size_t bytes, std::size_t alignment,
                                device_address wanted, unsigned long long flags) = nullptr;
  status (*cuMemAddressFree)(device_address address, std::size_t bytes) = nullptr;
  status (*cuMemMap)(device_address address, std::size_t bytes, std::size_t offset,
                     allocation_handle handle, unsigned long long flags) = nullptr;
  status (*cuMemUnmap)(device_address address, std::size_t bytes) = nullptr;
  status (*cuMemSetAccess)(device_address address, std::size_t bytes,
                           const access_description* descriptions, std::size_t count) = nullptr;
  status (*cuMemExportToShareableHandle)(void* shareable, allocation_handle handle, int handle_type,
                                         unsigned long long flags) = nullptr;
  status (*cuMemImportFromShareableHandle)(allocation_handle* handle, void* shareable,
                                           int handle_type) = nullptr;
  status (*cuDeviceGetUuid)(uuid* id, int device) = nullptr;

  // Looks up all functions. If the driver lacks a function, returns cudaErrorNotSupported.
  boost::system::error_code find();
};

}  // namespace ringload::inline v0::cuda::driver
