// SPDX-License-Identifier: Apache-2.0

// The functions about errors, devices and memory. What they do is told in fake_cudart.hpp.

#include "support/fake_cudart/fake_cudart.hpp"

#include <cstdint>

#include "support/fake_cudart/runtime.hpp"

using namespace ringload::testing::fake_cudart;

extern "C" {

const char* cudaGetErrorName(cudaError_t error) {
  switch (error) {
    case cudaSuccess: return "cudaSuccess";
    case cudaErrorInvalidValue: return "cudaErrorInvalidValue";
    case cudaErrorMemoryAllocation: return "cudaErrorMemoryAllocation";
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
  *count = devices;
  return now.says();
}

cudaError_t cudaSetDevice(int device) {
  const call now("cudaSetDevice");
  if (the().device.broken != cudaSuccess) current_device = device;  // To give back what it has.
  if (now.failed()) return now.says();
  if (device < 0 || device >= devices) return now.says(cudaErrorInvalidDevice);
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

cudaError_t cudaDeviceGetAttribute(int* value, enum cudaDeviceAttr, int) {
  const call now("cudaDeviceGetAttribute");
  if (now.failed()) return now.says();
  *value = 0;  // The host's first NUMA node.
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
  if (the().free_waits) (void)device.drain_all(now.lock, current_device);
  auto* const begin = static_cast<std::byte*>(address);
  if (device.memory.is_of_another_process(begin)) now.complain("another process's memory");
  if (device.memory.is_open_elsewhere(begin)) now.complain("another process has it open");
  const std::size_t bytes = device.memory.give_back(begin);
  if (bytes == 0) now.complain("no such memory");
  if (device.is_used(address, bytes)) now.complain("a stream still uses the memory");
  return now.says();
}

cudaError_t cudaMemGetInfo(size_t* free_bytes, size_t* total_bytes) {
  const call now("cudaMemGetInfo");
  if (now.failed()) return now.says();
  *total_bytes = memory_bytes;
  *free_bytes = memory_bytes - the().device.memory.allocated(current_device);
  return now.says();
}

cudaError_t cudaHostRegister(void* address, size_t bytes, unsigned int flags) {
  const call now("cudaHostRegister");
  if (now.failed()) return now.says();
  const bool portable = (flags & cudaHostRegisterPortable) != 0;
  auto* const memory = static_cast<std::byte*>(address);
  if (!the().device.memory.pin(memory, bytes, current_device, portable)) {
    return now.says(cudaErrorHostMemoryAlreadyRegistered);
  }
  return now.says();
}

cudaError_t cudaHostUnregister(void* address) {
  const call now("cudaHostUnregister");
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
