// SPDX-License-Identifier: Apache-2.0
#pragma once

// Pins slots (I/O buffers), so that the device can copy the slots by DMA, and kernels of the device
// can read the slots.

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

  // Pins one slot. The current device of the thread must be the device of the slots. A slot that is
  // not pinned can be used too, but its copies are slower.
  boost::system::error_code pin(std::span<std::byte> slot) {
    std::byte* const memory = slot.data();
    // Child processes do not inherit slots, because fork() would copy pinned pages immediately.
    // Before Linux 5.9, a fork() could also leave the original pages, which the device uses, to the
    // child process.
    (void)::madvise(memory, slot.size(), MADV_DONTFORK);
    const unsigned flags = cudaHostRegisterMapped | (slots_.shared ? cudaHostRegisterPortable : 0U);
    const cudaError_t outcome = cudaHostRegister(memory, slot.size(), flags);
    const auto failed = code_of(outcome);
    // If slots are shared, the first device pins and unpins each slot for all devices.
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

  // Returns true if all bytes are within one slot that has a device address.
  bool has(std::span<const std::byte> bytes) const noexcept {
    if (bytes.empty() || on_device(bytes.data()) == nullptr) return false;
    const auto offset = static_cast<std::size_t>(bytes.data() - slots_.memory.data());
    return bytes.size() <= slots_.slot_bytes - offset % slots_.slot_bytes;
  }

  std::uint64_t slot_bytes() const noexcept { return slots_.slot_bytes; }

  // Returns the device address of a slot. The address may differ from the host address. Returns
  // null if kernels cannot read the slot, or if the memory is not a slot.
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
  std::vector<state> states_;  // Indexed by slot. Only one thread sets an entry.
};

}  // namespace ringload::inline v0::cuda
