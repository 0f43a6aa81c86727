// SPDX-License-Identifier: Apache-2.0
#pragma once

// The stand-in's memory: of the devices, and what they know of the host's.
//
// A device's memory lies behind addresses that the host cannot touch. What was given back is taken
// again by the next who asks for as much, at the same address. Guarded by the device's mutex.

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <type_traits>
#include <vector>

#include "base/unique_fd.hpp"

namespace ringload::testing::fake_cudart {

// Memory of a device that another process can open: a memfd of the process that allocated it.
struct shared_block {
  ::pid_t process = 0;
  int descriptor = -1;
  ::ino_t file = 0;
  std::size_t bytes = 0;
  std::int64_t device = 0;
};
// Handles are copied and compared as bytes: padding between the members would differ.
static_assert(std::has_unique_object_representations_v<shared_block>);

class device_memory {
 public:
  std::byte* allocate(std::size_t bytes, int device);
  // How much it was; 0 if there is no such memory.
  std::size_t give_back(std::byte* address);
  void forget();

  // From now on the block that begins there lies in memory that others can open. False: none does.
  bool share(std::byte* address, shared_block& named);
  // Null where it was given back, or is another device's.
  std::byte* open(const shared_block& named, int device);
  bool is_of_another_process(const std::byte* address) const;
  // Whether another process has the block open.
  bool is_open_elsewhere(const std::byte* address) const;

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
    std::size_t mapped_bytes;  // 0: allocated.
    void operator()(std::byte* memory) const noexcept;
  };
  struct block {
    std::size_t bytes;
    std::size_t mapped_bytes;
    int device;
    std::unique_ptr<std::byte[], free_delete> memory;
    unique_fd shared;  // The memfd that the memory lies in.
    bool of_another_process;
  };

  struct pinned_range {
    std::size_t bytes;
    int device;
    bool portable;
  };

  // Null: it is not pinned.
  const pinned_range* range_of(const void* memory, std::size_t bytes) const;
  std::byte* new_address(std::size_t mapped);
  std::byte* own(const void* address, std::size_t bytes, int device) const;

  std::map<const std::byte*, block> blocks_;
  std::map<std::size_t, std::vector<std::byte*>> addresses_;  // Given back, by their mapped bytes.
  std::map<const std::byte*, pinned_range> pinned_;
};

}  // namespace ringload::testing::fake_cudart
