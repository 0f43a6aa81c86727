// SPDX-License-Identifier: Apache-2.0
#pragma once

// Device memory and how it is freed.
//
// Threads of the library free the memory, because cudaFree may wait for work of the device. The
// owner of a model's last tensor, such as an event loop or an interpreter that holds its lock, must
// not wait for that. A consumer whose kernels may still read a released tensor has named their
// stream, and the events of that stream are waited for before the memory is freed.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "base/logged_allocation.hpp"
#include "device/cuda/copy_to_host.hpp"
#include "device/cuda/raii.hpp"

namespace ringload::inline v0::cuda {

// One cudaMalloc allocation of this or another process. Must be destroyed with its device as the
// current one, when nothing uses it any more.
struct taken_memory {
  void* address = nullptr;
  std::uint64_t bytes = 0;
  int device = 0;
  bool is_of_another_process = false;
  std::shared_ptr<const void> keeps;  // Released after the memory is freed.
  std::shared_ptr<read_back_pool> readers;
  logged_allocation logged;
  std::vector<event> uses;             // The ends of the consumers' work on any streams.
  std::unique_ptr<taken_memory> next;  // Next block in the queue of blocks to free.

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
  device_block& operator=(device_block&& source) noexcept {
    memory_.swap(source.memory_);
    return *this;
  }
  // May run in any thread: another thread frees the memory.
  ~device_block();

  std::byte* data() const noexcept { return static_cast<std::byte*>(memory_->address); }
  std::uint64_t bytes() const noexcept { return memory_->bytes; }
  taken_memory& memory() const noexcept { return *memory_; }

 private:
  std::unique_ptr<taken_memory> memory_;  // Null after a move.
};

// Waits until all memory that is being freed in this process is free. All loaders share the device
// memory.
void wait_for_returned_memory() noexcept;

}  // namespace ringload::inline v0::cuda
