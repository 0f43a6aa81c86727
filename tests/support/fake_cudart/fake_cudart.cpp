// SPDX-License-Identifier: Apache-2.0

// The functions for errors, devices and memory. fake_cudart.hpp describes them.

#include "support/fake_cudart/fake_cudart.hpp"

#include <cstdint>
#include <cstdio>

#include "support/fake_cudart/runtime.hpp"

using namespace ringload::testing::fake_cudart;

namespace {

// By default, a real driver pins memory for writing too.
bool is_writable(const void* address) {
  std::FILE* const maps = std::fopen("/proc/self/maps", "re");
  if (maps == nullptr) return true;
  const auto wanted = reinterpret_cast<std::uintptr_t>(address);
  bool found = true;
  char line[512];
  while (std::fgets(line, sizeof line, maps) != nullptr) {
    unsigned long begin = 0;
    unsigned long end = 0;
    char access[8] = {};
    if (std::sscanf(line, "%lx-%lx %7s", &begin, &end, access) != 3) continue;
    if (wanted < begin || wanted >= end) continue;
    found = access[1] == 'w';
    break;
  }
  (void)std::fclose(maps);
  return found;
}

}  // namespace

extern "C" {

const char* cudaGetErrorName(cudaError_t error) {
  switch (error) {
    case cudaSuccess: return "cudaSuccess";
    case cudaErrorInvalidValue: return "cudaErrorInvalidValue";
    case cudaErrorMemoryAllocation: return "cudaErrorMemoryAllocation";
    case cudaErrorNoKernelImageForDevice: return "cudaErrorNoKernelImageForDevice";
    case cudaErrorECCUncorrectable: return "cudaErrorECCUncorrectable";
    case cudaErrorNotReady: return "cudaErrorNotReady";
    case cudaErrorIllegalAddress: return "cudaErrorIllegalAddress";
    case cudaErrorNotSupported: return "cudaErrorNotSupported";
    default: return "cudaErrorOther";
  }
}

const char* cudaGetErrorString(cudaError_t) { return "what CUDA says about it"; }

cudaError_t cudaGetLastError() {
  const cudaError_t was = last_error;
  last_error = cudaSuccess;
  return was;
}

cudaError_t cudaDriverGetVersion(int* version) {
  const call now("cudaDriverGetVersion");
  *version = the().driver_version;
  return now.says();
}

cudaError_t cudaGetDeviceCount(int* count) {
  const call now("cudaGetDeviceCount");
  if (now.failed() || the().count_says != cudaSuccess) return now.says(the().count_says);
  *count = the().device_count;
  return now.says();
}

cudaError_t cudaSetDevice(int device) {
  const call now("cudaSetDevice");
  // So that its resources can be released.
  if (the().device.broken != cudaSuccess) current_device = device;
  if (now.failed()) return now.says();
  if (device < 0 || device >= the().device_count) return now.says(cudaErrorInvalidDevice);
  current_device = device;
  the().contexts.insert(device);
  return now.says();
}

cudaError_t cudaGetDevice(int* device) {
  const call now("cudaGetDevice");
  if (now.failed()) return now.says();
  *device = current_device;
  return now.says();
}

cudaError_t cudaDeviceGetAttribute(int* value, enum cudaDeviceAttr which, int) {
  const call now("cudaDeviceGetAttribute");
  if (now.failed()) return now.says();
  // Otherwise the first NUMA node of the host.
  *value = which == cudaDevAttrIntegrated && the().is_integrated ? 1 : 0;
  return now.says();
}

cudaError_t cudaDeviceGetStreamPriorityRange(int* lowest, int* highest) {
  const call now("cudaDeviceGetStreamPriorityRange");
  if (now.failed()) return now.says();
  *lowest = 0;
  *highest = -5;
  return now.says();
}

cudaError_t cudaDeviceCanAccessPeer(int* can, int device, int peer) {
  const call now("cudaDeviceCanAccessPeer");
  if (now.failed()) return now.says();
  *can = the().connected && device != peer ? 1 : 0;
  return now.says();
}

cudaError_t cudaDeviceEnablePeerAccess(int peer, unsigned int) {
  const call now("cudaDeviceEnablePeerAccess");
  if (now.failed()) return now.says();
  if (!the().connected || peer == current_device) return now.says(cudaErrorInvalidDevice);
  the().contexts.insert(peer);
  const bool first = the().reaches.insert({current_device, peer}).second;
  return now.says(first ? cudaSuccess : cudaErrorPeerAccessAlreadyEnabled);
}

cudaError_t cudaThreadExchangeStreamCaptureMode(cudaStreamCaptureMode* mode) {
  const call now("cudaThreadExchangeStreamCaptureMode");
  std::swap(*mode, capture_mode);
  return now.says();
}

cudaError_t cudaMalloc(void** to, size_t bytes) {
  const call now("cudaMalloc");
  if (now.failed()) return now.says();
  device_memory& memory = the().device.memory;
  if (memory.allocated(current_device) + bytes > memory_bytes) {
    return now.says(cudaErrorMemoryAllocation);
  }
  *to = memory.allocate(bytes, current_device);
  return now.says();
}

cudaError_t cudaFree(void* address) {
  call now("cudaFree");
  device_side& device = the().device;
  auto* const begin = static_cast<std::byte*>(address);
  // A real device may free without a wait, so the memory must be unused before the call.
  if (device.is_used(address, device.memory.bytes_of(begin))) {
    now.complain("a stream still uses the memory");
  }
  now.wait_for_device();
  if (device.memory.give_back(begin) == 0) now.complain("no such memory");
  return now.says();
}

cudaError_t cudaMemGetInfo(size_t* free_bytes, size_t* total_bytes) {
  const call now("cudaMemGetInfo");
  if (now.failed()) return now.says();
  *total_bytes = memory_bytes;
  *free_bytes = memory_bytes - the().device.memory.allocated(current_device);
  if (the().is_integrated) *free_bytes = 0;
  return now.says();
}

cudaError_t cudaHostRegister(void* address, size_t bytes, unsigned int flags) {
  const call now("cudaHostRegister");
  if (now.failed()) return now.says();
  const bool portable = (flags & cudaHostRegisterPortable) != 0;
  auto* const memory = static_cast<std::byte*>(address);
  if (!is_writable(address) && (flags & cudaHostRegisterReadOnly) == 0) {
    return now.says(cudaErrorInvalidValue);
  }
  if (!the().device.memory.pin(memory, bytes, current_device, portable)) {
    return now.says(cudaErrorHostMemoryAlreadyRegistered);
  }
  return now.says();
}

cudaError_t cudaHostUnregister(void* address) {
  call now("cudaHostUnregister");
  now.wait_for_device();
  if (!the().device.memory.unpin(static_cast<std::byte*>(address))) now.complain("not pinned");
  return now.says();
}

cudaError_t cudaHostGetDevicePointer(void** there, void* address, unsigned int) {
  const call now("cudaHostGetDevicePointer");
  if (now.failed()) return now.says();
  if (!the().device.memory.is_pinned(address, 1, current_device))
    return now.says(cudaErrorInvalidValue);
  *there = reinterpret_cast<void*>(reinterpret_cast<std::uintptr_t>(address) + mapped_at);
  return now.says();
}
}
