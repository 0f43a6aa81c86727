// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime_api.h>

#include <memory>
#include <mutex>
#include <new>
#include <utility>

#include "base/free_list.hpp"
#include "device/backend.hpp"
#include "device/cuda/device_memory.hpp"

namespace ringload::inline v0::cuda {

// The memory of one load on a GPU. The program calls release() when its work with the memory has
// ended, or add_use() if the work will end on a stream. In both cases, the memory is kept for the
// next load. If the program calls neither function, the memory is freed, because a reuse would need
// a wait for the whole device. This wait would include unrelated work of the program, and would
// invalidate graph captures. The memory is freed too if add_use() has failed and release() was not
// called afterwards, because no event then covers all uses.
class cuda_arena final : public arena {
 public:
  cuda_arena(device_block memory, bool was_kept,
             std::weak_ptr<free_list<device_block>> home) noexcept
      : memory_(std::move(memory)), was_kept_(was_kept), home_(std::move(home)) {}
  cuda_arena(const cuda_arena&) = delete;
  cuda_arena& operator=(const cuda_arena&) = delete;
  ~cuda_arena() override {
    // Shareable memory is not kept, because other processes may still read the memory. Borrowed
    // memory is not kept, because a host arena owns the memory.
    if (uses_ != uses::known || shareable() != nullptr || memory_.memory().is_borrowed) return;
    if (const auto home = home_.lock()) home->put(std::move(memory_));
  }

  std::byte* data() const noexcept override { return memory_.data(); }
  bool was_kept() const noexcept override { return was_kept_; }
  bool populated() const noexcept override { return true; }
  bool read_only() const noexcept override { return memory_.memory().is_of_another_process; }

  // Returns null if the memory is private.
  const shareable_memory* shareable() const noexcept { return memory_.memory().shareable.get(); }
  read_back_pool& readers() const noexcept { return *memory_.memory().readers; }

  void release() noexcept {
    const std::lock_guard lock(mutex_);
    uses_ = uses::known;
  }

  // Must be called if add_use() has failed, or cannot be called.
  void miss_use() noexcept {
    const std::lock_guard lock(mutex_);
    uses_ = uses::missed;
  }

  // The device must be the current device. Thread-safe.
  boost::system::error_code add_use(cudaStream_t consumer_stream) noexcept {
    try {
      event end;
      if (auto failed = end.make()) return failed;
      if (auto failed = end.record(consumer_stream)) return failed;
      const std::lock_guard lock(mutex_);
      memory_.memory().uses.push_back(std::move(end));
      if (uses_ == uses::undeclared) uses_ = uses::known;
      return {};
    } catch (const std::bad_alloc&) {
      return errc::memory_exceeded;
    }
  }

 private:
  enum class uses { undeclared, known, missed };

  device_block memory_;
  const bool was_kept_;
  const std::weak_ptr<free_list<device_block>> home_;
  std::mutex mutex_;
  uses uses_ = uses::undeclared;  // Guarded by the mutex, like the events of the uses.
};

}  // namespace ringload::inline v0::cuda
