// SPDX-License-Identifier: Apache-2.0
#pragma once

// Memory of the host that the device can copy from by itself, and that its kernels can read.

#include <cuda_runtime_api.h>

#include <boost/system/error_code.hpp>
#include <cstddef>
#include <span>
#include <vector>

#include "device/backend.hpp"
#include "device/cuda/runtime.hpp"

namespace ringload::inline v0::cuda {

class pinned {
 public:
  explicit pinned(slot_region slots)
      : slots_(slots), on_device_(slots.memory.size() / slots.slot_bytes) {}
  pinned(const pinned&) = delete;
  pinned& operator=(const pinned&) = delete;
  ~pinned() {
    for (std::size_t slot = 0; slot < on_device_.size(); ++slot) {
      if (on_device_[slot]) (void)code_of(cudaHostUnregister(at(slot)));
    }
  }

  // One slot, in any thread whose current device is the slot's.
  boost::system::error_code pin(std::span<std::byte> slot) {
    std::byte* const memory = slot.data();
    if (auto failed = code_of(cudaHostRegister(memory, slot.size(), cudaHostRegisterMapped))) {
      return failed;
    }
    void* there = nullptr;
    if (auto failed = code_of(cudaHostGetDevicePointer(&there, memory, 0))) {
      (void)code_of(cudaHostUnregister(memory));
      return failed;
    }
    on_device_[index_of(memory)] = static_cast<const std::byte*>(there);
    return {};
  }

  // The address by which kernels know a slot, which need not be the host's.
  const std::byte* on_device(const std::byte* slot) const noexcept {
    return on_device_[index_of(slot)];
  }

 private:
  std::byte* at(std::size_t slot) const noexcept {
    return slots_.memory.data() + slot * slots_.slot_bytes;
  }
  std::size_t index_of(const std::byte* slot) const noexcept {
    return static_cast<std::size_t>(slot - slots_.memory.data()) / slots_.slot_bytes;
  }

  const slot_region slots_;
  std::vector<const std::byte*> on_device_;  // By slot; null: not pinned. Each set by one thread.
};

}  // namespace ringload::inline v0::cuda
