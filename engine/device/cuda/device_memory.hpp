// SPDX-License-Identifier: Apache-2.0
#pragma once

// Memory of a device, and how it goes back.
//
// It goes back in threads of the library's own. cudaFree may wait for work that the device has, and
// whoever lets go of a model's last tensor, an event loop or an interpreter that holds its lock,
// does not wait with it. Nor does it have to wait: a consumer whose kernels may still read a tensor
// that it lets go of has said on which stream they are, and their events are waited for first.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "core/logged_allocation.hpp"
#include "device/cuda/handles.hpp"
#include "device/cuda/read_back.hpp"

namespace ringload::inline v0::cuda {

// What one call of cudaMalloc gave, here or in another process. Destroyed where its device is the
// current one, and when nothing uses it any more.
struct taken_memory {
  void* address = nullptr;
  std::uint64_t bytes = 0;
  int device = 0;
  bool is_of_another_process = false;
  std::shared_ptr<const void> keeps;  // Let go of when the memory is back.
  std::shared_ptr<read_back_pool> readers;
  logged_allocation logged;
  std::vector<event> uses;             // The ends of consumers' work, on whatever streams.
  std::unique_ptr<taken_memory> next;  // On its way back: the one behind it.

  taken_memory() = default;
  taken_memory(const taken_memory&) = delete;
  taken_memory& operator=(const taken_memory&) = delete;
  ~taken_memory();

  boost::system::error_code wait_for_uses();
};

class device_block {
 public:
  explicit device_block(std::unique_ptr<taken_memory> memory) noexcept
      : memory_(std::move(memory)) {}
  device_block(device_block&&) noexcept = default;
  device_block& operator=(device_block&& other) noexcept {
    memory_.swap(other.memory_);
    return *this;
  }
  // In any thread: the memory goes back in another one.
  ~device_block();

  std::byte* data() const noexcept { return static_cast<std::byte*>(memory_->address); }
  std::uint64_t bytes() const noexcept { return memory_->bytes; }
  taken_memory& memory() const noexcept { return *memory_; }

 private:
  std::unique_ptr<taken_memory> memory_;  // Null after it was moved from.
};

// Waits until all memory is back that was on its way, of the whole process, for it is one device's
// memory that all loaders share.
void wait_for_returned_memory() noexcept;

}  // namespace ringload::inline v0::cuda
