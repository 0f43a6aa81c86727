// SPDX-License-Identifier: Apache-2.0
#pragma once

// Memory of the host that the device can copy from by itself, and that its kernels can read.

#include <cuda_runtime_api.h>
#include <sys/mman.h>

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
      : slots_(slots), states_(slots.memory.size() / slots.slot_bytes) {}
  pinned(const pinned&) = delete;
  pinned& operator=(const pinned&) = delete;
  ~pinned() {
    for (std::size_t slot = 0; slot < states_.size(); ++slot) {
      if (states_[slot].registered) (void)code_of(cudaHostUnregister(at(slot)));
    }
    (void)::madvise(slots_.memory.data(), slots_.memory.size(), MADV_DOFORK);
  }

  // One slot, in any thread whose current device is the slot's. Copies from a slot that could not
  // be pinned are right as well, and slower.
  boost::system::error_code pin(std::span<std::byte> slot) {
    std::byte* const memory = slot.data();
    // A child process would have to be given a copy of pinned pages at once, and before Linux 5.9
    // the device could be left with the child's. So it is given none.
    (void)::madvise(memory, slot.size(), MADV_DONTFORK);
    const unsigned flags = cudaHostRegisterMapped | (slots_.shared ? cudaHostRegisterPortable : 0U);
    const cudaError_t said = cudaHostRegister(memory, slot.size(), flags);
    const auto failed = code_of(said);
    // Pinned for one of several devices it is so for all, and its first one gives it back.
    const bool by_another = slots_.shared && said == cudaErrorHostMemoryAlreadyRegistered;
    if (failed && !by_another) return failed;
    state& one = states_[index_of(memory)];
    if (!by_another) one.registered = true;
    void* there = nullptr;
    if (!code_of(cudaHostGetDevicePointer(&there, memory, 0))) {
      one.on_device = static_cast<const std::byte*>(there);
    }
    return {};
  }

  // The address by which kernels know a slot, which need not be the host's; null where they cannot
  // read it, and of any other memory: what was decoded comes out of a buffer that is no slot.
  const std::byte* on_device(const std::byte* slot) const noexcept {
    const std::byte* const begin = slots_.memory.data();
    if (slot < begin || slot >= begin + slots_.memory.size()) return nullptr;
    return states_[index_of(slot)].on_device;
  }

 private:
  struct state {
    bool registered = false;
    const std::byte* on_device = nullptr;
  };

  std::byte* at(std::size_t slot) const noexcept {
    return slots_.memory.data() + slot * slots_.slot_bytes;
  }
  std::size_t index_of(const std::byte* slot) const noexcept {
    return static_cast<std::size_t>(slot - slots_.memory.data()) / slots_.slot_bytes;
  }

  const slot_region slots_;
  std::vector<state> states_;  // By slot. Each set by one thread.
};

}  // namespace ringload::inline v0::cuda
