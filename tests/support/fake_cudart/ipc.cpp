// SPDX-License-Identifier: Apache-2.0

// The functions about memory that several processes have open. A handle names the memfd that the
// memory lies in from then on; whoever opens it locks it, so that freeing it too early is seen.

#include <unistd.h>

#include <cstdio>
#include <cstring>

#include "support/fake_cudart/fake_cudart.hpp"
#include "support/fake_cudart/runtime.hpp"

using namespace ringload::testing::fake_cudart;

extern "C" {

cudaError_t cudaDeviceGetPCIBusId(char* id, int length, int device) {
  const call now("cudaDeviceGetPCIBusId");
  if (now.failed()) return now.says();
  if (device < 0 || device >= devices) return now.says(cudaErrorInvalidDevice);
  (void)std::snprintf(id, static_cast<size_t>(length), "0000:%02x:00.0", 0x3b + device);
  return now.says();
}

cudaError_t cudaIpcGetMemHandle(cudaIpcMemHandle_t* handle, void* address) {
  const call now("cudaIpcGetMemHandle");
  if (now.failed()) return now.says();
  shared_block named;
  if (!the().device.memory.share(static_cast<std::byte*>(address), named)) {
    return now.says(cudaErrorInvalidValue);
  }
  static_assert(sizeof named <= sizeof handle->reserved);
  *handle = {};
  std::memcpy(handle->reserved, &named, sizeof named);
  return now.says();
}

cudaError_t cudaIpcOpenMemHandle(void** to, cudaIpcMemHandle_t handle, unsigned int flags) {
  const call now("cudaIpcOpenMemHandle");
  if (now.failed()) return now.says();
  shared_block named;
  std::memcpy(&named, handle.reserved, sizeof named);
  if (flags != cudaIpcMemLazyEnablePeerAccess) return now.says(cudaErrorInvalidValue);
  if (named.process == ::getpid()) return now.says(cudaErrorDeviceUninitialized);
  std::byte* const opened = the().device.memory.open(named, current_device);
  if (opened == nullptr) return now.says(cudaErrorMapBufferObjectFailed);
  *to = opened;
  return now.says();
}

cudaError_t cudaIpcCloseMemHandle(void* address) {
  const call now("cudaIpcCloseMemHandle");
  auto* const opened = static_cast<std::byte*>(address);
  device_side& device = the().device;
  if (!device.memory.is_of_another_process(opened)) return now.says(cudaErrorInvalidValue);
  const std::size_t bytes = device.memory.give_back(opened);
  if (device.is_used(address, bytes)) now.complain("a stream still uses the memory");
  return now.says();
}
}
