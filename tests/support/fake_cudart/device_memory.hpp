// SPDX-License-Identifier: Apache-2.0
#pragma once

// The memory of the stand-in: device memory, and the host memory that devices can access.
//
// The host cannot access the addresses of device memory. The next allocation of the same size gets
// a freed address. Guarded by the device's mutex.

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <type_traits>
#include <vector>

#include "base/unique_fd.hpp"

namespace ringload::testing::fake_cudart {

class device_memory {
 public:
  std::byte* allocate(std::size_t bytes, int device);
  std::size_t bytes_of(const std::byte* address) const;  // 0 if no block begins there.
  // Returns the number of freed bytes, or 0 if the memory does not exist.
  std::size_t give_back(std::byte* address);
  void forget();

  // Allocations of the driver's virtual memory management. 0 is not a handle.
  std::uint64_t create_shareable(std::size_t bytes, int device);
  std::uint64_t import_shareable(int descriptor, int device);
  // A new descriptor, or -1 if the handle does not exist.
  int descriptor_of_shareable(std::uint64_t handle) const;
  bool release_shareable(std::uint64_t handle) { return shareable_.erase(handle) == 1; }
  std::byte* reserve(std::size_t bytes);
  bool free_reserved(std::byte* address, std::size_t bytes);
  bool map_shareable(std::byte* address, std::size_t bytes, std::uint64_t handle);
  bool unmap_shareable(std::byte* address, std::size_t bytes);
  bool set_access(std::byte* address, std::size_t bytes, bool may_write);
  bool is_read_only(const void* address) const;
  std::size_t handles_and_addresses() const { return shareable_.size() + reserved_.size(); }

  // Returns the host address of a range of device addresses, in device memory or in pinned host
  // memory. Null if the range does not exist.
  std::byte* behind(const void* address, std::size_t bytes, int device) const;
  bool is_own(const void* address, std::size_t bytes, int device) const;
  // Notes that a drive writes to the block of the address, and returns whether one did.
  void note_drive(const void* address);
  bool is_of_drive(const void* address) const;
  std::size_t allocated(int device) const;  // -1 means all devices.

  // For one device or for all devices.
  bool pin(std::byte* memory, std::size_t bytes, int device, bool portable);
  bool unpin(std::byte* memory) { return pinned_.erase(memory) == 1; }
  bool is_pinned(const void* memory, std::size_t bytes, int device) const;
  bool is_portable(const void* memory) const;
  std::vector<const void*> pinned() const;

 private:
  struct free_delete {
    std::size_t mapped_bytes;  // 0 if allocated.
    void operator()(std::byte* memory) const noexcept;
  };
  struct block {
    std::size_t bytes;
    std::size_t mapped_bytes;
    int device;
    std::unique_ptr<std::byte[], free_delete> memory;
    bool is_mapped;  // Mapped by the driver's functions, at a reserved address.
    bool of_another_process;
    bool may_read;
    bool may_write;
    bool of_drive = false;
  };
  struct shareable {
    std::shared_ptr<const unique_fd> file;  // The memfd of the memory.
    std::size_t bytes;
    int device;
    bool of_another_process;
  };

  struct pinned_range {
    std::size_t bytes;
    int device;
    bool portable;
  };

  // Null if the memory is not pinned.
  const pinned_range* range_of(const void* memory, std::size_t bytes) const;
  std::byte* new_address(std::size_t mapped);
  std::byte* own(const void* address, std::size_t bytes, int device) const;

  std::map<const std::byte*, block> blocks_;
  std::map<std::uint64_t, shareable> shareable_;
  std::uint64_t last_handle_ = 0;
  std::map<const std::byte*, std::size_t> reserved_;
  // Freed addresses, by their mapped bytes.
  std::map<std::size_t, std::vector<std::byte*>> addresses_;
  std::map<const std::byte*, pinned_range> pinned_;
};

}  // namespace ringload::testing::fake_cudart
