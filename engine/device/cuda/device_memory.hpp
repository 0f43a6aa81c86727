// SPDX-License-Identifier: Apache-2.0
#pragma once

// Owns device memory, and frees the memory in threads of the library.
//
// cudaFree may wait for work of the device. The thread that destroys the last reference to a tensor
// must not wait for this work. This thread may run an event loop or hold the lock of an
// interpreter. Kernels of the program may still read a released tensor. If the program has passed
// the stream of these kernels to release_after(), the freeing thread waits for an event on the
// stream.

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "base/fault.hpp"
#include "base/free_list.hpp"
#include "base/logged_allocation.hpp"
#include "device/cuda/copy_to_host.hpp"
#include "device/cuda/raii.hpp"
#include "device/cuda/shareable_memory.hpp"

namespace ringload::inline v0::cuda {

// Maximum number of host memory bytes that one call registers. The driver refuses 512 GiB, and some
// Linux kernels refuse more than 2 GiB.
inline constexpr std::size_t registered_bytes_max = std::size_t{1} << 30;

// An object that a thread of the library destroys. The thread first selects `device`. If no thread
// can be started, the calling thread destroys the object without selecting `device`. No other code
// may use the object during its destruction.
struct device_resource {
  explicit device_resource(int index = 0) noexcept : device(index) {}
  device_resource(const device_resource&) = delete;
  device_resource& operator=(const device_resource&) = delete;
  virtual ~device_resource() = default;

  int device;
  std::unique_ptr<device_resource> next;  // Next object in the queue of objects to destroy.
};

// Destroys the object in a thread of the library, or in the calling thread if no thread can be
// started. May be called in any thread.
void destroy_later(std::unique_ptr<device_resource> resource) noexcept;

// Destroys `value` in a thread of the library. If there is no memory for the queue, destroys
// `value` in the calling thread.
template <class T>
void destroy_later(int device, T value) noexcept {
  struct holder final : device_resource {
    holder(int index, T&& owned) noexcept : device_resource(index), held(std::move(owned)) {}
    T held;
  };
  try {
    destroy_later(std::make_unique<holder>(device, std::move(value)));
  } catch (const std::bad_alloc&) {
    (void)on_device(device, [&value] { const T destroyed_here = std::move(value); });
  }
}

// One allocation of cudaMalloc, shareable memory, registered host memory, or borrowed memory. The
// destructor waits for `uses`. No other work may use the memory when the object is destroyed.
struct taken_memory final : device_resource {
  void* address = nullptr;
  std::uint64_t bytes = 0;
  bool is_of_another_process = false;
  // If not null, owns the memory.
  std::unique_ptr<shareable_memory> shareable;
  bool is_borrowed = false;           // `keeps` owns the memory, so `address` is not freed.
  std::span<std::byte> registered;    // Unregistered in pieces.
  std::span<std::byte> unmapped;      // Unmapped after `registered` is unregistered.
  std::shared_ptr<const void> keeps;  // Released after the memory is freed.
  std::shared_ptr<read_back_pool> readers;
  logged_allocation logged;
  std::vector<event> uses;  // After all these events, the program no longer uses the memory.

  taken_memory() = default;
  ~taken_memory() override;

  boost::system::error_code wait_for_uses();
  // Removes uses from the end of `uses` until a use has not ended. Sets `is_used` if a use remains.
  // Does not wait.
  boost::system::error_code check_uses(bool& is_used);
};

class device_block {
 public:
  explicit device_block(std::unique_ptr<taken_memory> memory) noexcept
      : memory_(std::move(memory)) {}
  device_block(device_block&&) noexcept = default;
  device_block& operator=(device_block&& source) noexcept {
    memory_.swap(source.memory_);
    return *this;
  }
  // May run in any thread, because another thread frees the memory.
  ~device_block();

  std::byte* data() const noexcept { return static_cast<std::byte*>(memory_->address); }
  std::uint64_t bytes() const noexcept { return memory_->bytes; }
  taken_memory& memory() const noexcept { return *memory_; }

 private:
  std::unique_ptr<taken_memory> memory_;  // Null after a move.
};

// Takes memory from the free list of a device. No tensor uses this memory, but kernels of the
// program may still use the memory. The function does not wait for the kernels, which may run
// forever. It skips the memory that they use, and returns an empty optional if there is no other.
result<std::optional<device_block>> take_unused(free_list<device_block>& kept, int device,
                                                std::uint64_t bytes);

// Limits wait_for_returned_memory(), because a kernel of the program may use memory forever.
inline constexpr std::chrono::seconds returned_memory_wait_max{5};

// The interval in which an allocation on a full device checks whether memory of the free list is
// still in use.
inline constexpr std::chrono::milliseconds memory_poll_interval{2};

// Waits until the threads of the library have freed all queued memory, or until the limit. The
// queue contains the memory of all loaders of the process.
void wait_for_returned_memory(std::chrono::milliseconds limit = returned_memory_wait_max) noexcept;

}  // namespace ringload::inline v0::cuda
