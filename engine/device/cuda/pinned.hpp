// SPDX-License-Identifier: Apache-2.0
#pragma once

// Host memory that the device can copy from directly and that its kernels can read.

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
      if (states_[slot].registered) (void)code_of(cudaHostUnregister(slot_begin(slot)));
    }
    (void)::madvise(slots_.memory.data(), slots_.memory.size(), MADV_DOFORK);
  }

  // Pins one slot. The slot's device must be the current one of the thread. Copies from an unpinned
  // slot work too, but slower.
  boost::system::error_code pin(std::span<std::byte> slot) {
    std::byte* const memory = slot.data();
    // A child process would immediately receive a copy of pinned pages, and before Linux 5.9 the
    // device could then be left with the child's pages. So children do not inherit them.
    (void)::madvise(memory, slot.size(), MADV_DONTFORK);
    const unsigned flags = cudaHostRegisterMapped | (slots_.shared ? cudaHostRegisterPortable : 0U);
    const cudaError_t outcome = cudaHostRegister(memory, slot.size(), flags);
    const auto failed = code_of(outcome);
    // Memory that is pinned for one device is pinned for all. The first device unpins it.
    const bool by_another = slots_.shared && outcome == cudaErrorHostMemoryAlreadyRegistered;
    if (failed && !by_another) return failed;
    state& slot_state = states_[index_of(memory)];
    if (!by_another) slot_state.registered = true;
    void* address = nullptr;
    if (!code_of(cudaHostGetDevicePointer(&address, memory, 0))) {
      slot_state.on_device = static_cast<const std::byte*>(address);
    }
    return {};
  }

  // Returns the device address of a slot, which may differ from the host address. Returns null if
  // kernels cannot read the slot, and for other memory such as decoded buffers.
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

  std::byte* slot_begin(std::size_t slot) const noexcept {
    return slots_.memory.data() + slot * slots_.slot_bytes;
  }
  std::size_t index_of(const std::byte* slot) const noexcept {
    return static_cast<std::size_t>(slot - slots_.memory.data()) / slots_.slot_bytes;
  }

  const slot_region slots_;
  std::vector<state> states_;  // Indexed by slot. One thread sets each entry.
};

}  // namespace ringload::inline v0::cuda
