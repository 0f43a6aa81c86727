// SPDX-License-Identifier: Apache-2.0
#pragma once

// The stand-in's memory: of the devices, and what they know of the host's.
//
// A device's memory lies behind addresses that the host cannot touch. What was given back is taken
// again by the next who asks for as much, at the same address. Guarded by the device's mutex.

#include <cstddef>
#include <map>
#include <memory>
#include <vector>

namespace ringload::testing::fake_cudart {

class device_memory {
 public:
  std::byte* allocate(std::size_t bytes, int device);
  // How much it was; 0 if there is no such memory.
  std::size_t give_back(std::byte* address);
  void forget();

  // Where the bytes of a range are that the device knows by this address: memory of its own, or
  // pinned memory of the host, by the address that it has on the device. Null where there are none.
  std::byte* behind(const void* address, std::size_t bytes, int device) const;
  bool is_own(const void* address, std::size_t bytes, int device) const;
  std::size_t allocated(int device) const;  // Of all devices: -1.

  // For that device, or for all of them.
  bool pin(std::byte* memory, std::size_t bytes, int device, bool portable);
  bool unpin(std::byte* memory) { return pinned_.erase(memory) == 1; }
  bool is_pinned(const void* memory, std::size_t bytes, int device) const;
  bool is_portable(const void* memory) const;
  std::vector<const void*> pinned() const;

 private:
  struct free_delete {
    void operator()(std::byte* memory) const noexcept;
  };
  struct block {
    std::size_t bytes;
    std::size_t mapped_bytes;
    int device;
    std::unique_ptr<std::byte[], free_delete> memory;
  };

  struct pinned_range {
    std::size_t bytes;
    int device;
    bool portable;
  };

  // Null: it is not pinned.
  const pinned_range* range_of(const void* memory, std::size_t bytes) const;
  std::byte* own(const void* address, std::size_t bytes, int device) const;

  std::map<const std::byte*, block> blocks_;
  std::map<std::size_t, std::vector<std::byte*>> addresses_;  // Given back, by their mapped bytes.
  std::map<const std::byte*, pinned_range> pinned_;
};

}  // namespace ringload::testing::fake_cudart
