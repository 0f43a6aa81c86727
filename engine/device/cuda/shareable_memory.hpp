// SPDX-License-Identifier: Apache-2.0
#pragma once

// Device memory that other processes can map through a file descriptor. Used by
// shared_cuda_device(). Implemented with the virtual memory functions of CUDA. The driver frees the
// memory when no process maps the memory or has a descriptor of the memory.
//
// The virtual memory functions belong to the library of the CUDA driver. The CUDA runtime finds
// their addresses, so programs need not link that library.

#include <boost/system/error_code.hpp>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "base/unique_fd.hpp"
#include "device/cuda/driver_functions.hpp"
#include "device/cuda/runtime.hpp"

namespace ringload::inline v0::cuda {

// One allocation and its mapping in this process. The device must be current for all functions.
class shareable_memory {
 public:
  shareable_memory() = default;
  shareable_memory(const shareable_memory&) = delete;
  shareable_memory& operator=(const shareable_memory&) = delete;
  ~shareable_memory();

  // Allocates and maps memory that can be shared. Rounds the size up to the granularity of the
  // device, which is usually 2 MiB.
  boost::system::error_code make(int device, std::uint64_t bytes);

  // Maps memory of another process. The mapping is read-only if the driver supports read-only
  // mappings. Fails if the memory has fewer than `bytes` bytes.
  boost::system::error_code open(int device, int descriptor, std::uint64_t bytes);

  boost::system::error_code share(unique_fd& descriptor) const;

  void* address() const noexcept { return reinterpret_cast<void*>(address_); }
  std::uint64_t bytes() const noexcept { return bytes_; }

 private:
  boost::system::error_code map(int device, driver::access allowed);

  driver::functions driver_;
  driver::allocation_handle handle_ = 0;
  driver::device_address address_ = 0;  // 0 if no address is reserved.
  std::uint64_t bytes_ = 0;
  bool has_handle_ = false;
  bool is_mapped_ = false;
};

// Returns the UUID of a device or MIG instance in hexadecimal. All processes get the same UUID.
boost::system::error_code uuid_of(int device, std::string& text);

}  // namespace ringload::inline v0::cuda
