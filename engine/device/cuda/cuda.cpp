// SPDX-License-Identifier: Apache-2.0

// A CUDA device. Slots are pinned in place on first use and copied into one allocation for each
// load.

#include <cuda_runtime_api.h>

#include <algorithm>
#include <boost/asio/io_context.hpp>
#include <cassert>
#include <memory>
#include <mutex>
#include <optional>
#include <ringload/cuda.hpp>
#include <ringload/error.hpp>
#include <string>
#include <utility>
#include <vector>

#include "base/checked.hpp"
#include "base/free_list.hpp"
#include "device/backend.hpp"
#include "device/cuda/copier.hpp"
#include "device/cuda/device_memory.hpp"
#include "device/cuda/ipc.hpp"
#include "device/cuda/numa_memory.hpp"
#include "device/cuda/pinned.hpp"
#include "device/cuda/runtime.hpp"
#include "device/cuda/scatter_plan.hpp"
#include "device/exported_memory.hpp"

namespace ringload::inline v0 {

namespace {

using cuda::device_block;

// The alignment that kernels need: cudaMalloc guarantees it, and no library needs more.
constexpr std::uint64_t tensor_alignment = 256;

std::string name_of(int index) { return "cuda:" + std::to_string(index); }

// Its memory is kept for the next load only if the consumer has declared when its work ends.
// Synchronising the whole device instead would wait for all work and invalidate the program's graph
// captures.
class cuda_arena final : public arena {
 public:
  cuda_arena(device_block memory, bool was_kept,
             std::weak_ptr<free_list<device_block>> home) noexcept
      : memory_(std::move(memory)), was_kept_(was_kept), home_(std::move(home)) {}
  cuda_arena(const cuda_arena&) = delete;
  cuda_arena& operator=(const cuda_arena&) = delete;
  ~cuda_arena() override {
    if (!uses_are_known_) return;
    if (const auto home = home_.lock()) home->put(std::move(memory_));
  }

  std::byte* data() const noexcept override { return memory_.data(); }
  bool was_kept() const noexcept override { return was_kept_; }
  bool populated() const noexcept override { return true; }
  bool read_only() const noexcept override { return memory_.memory().is_of_another_process; }

  std::uint64_t bytes() const noexcept { return memory_.bytes(); }
  cuda::read_back_pool& readers() const noexcept { return *memory_.memory().readers; }

  void release() noexcept {
    const std::lock_guard lock(mutex_);
    uses_are_known_ = true;
  }

  // The device must be the current one. Thread-safe.
  boost::system::error_code add_use(cudaStream_t consumer_stream) noexcept {
    try {
      cuda::event end;
      if (auto failed = end.make()) return failed;
      if (auto failed = end.record(consumer_stream)) return failed;
      const std::lock_guard lock(mutex_);
      memory_.memory().uses.push_back(std::move(end));
      uses_are_known_ = true;
      return {};
    } catch (const std::bad_alloc&) {
      return errc::memory_exceeded;
    }
  }

 private:
  device_block memory_;
  const bool was_kept_;
  const std::weak_ptr<free_list<device_block>> home_;
  std::mutex mutex_;
  bool uses_are_known_ = false;  // Guarded by the mutex, like the uses.
};

class cuda_backend final : public backend, public memory_exchange {
 public:
  explicit cuda_backend(int index) : index_(index) {}
  ~cuda_backend() override {
    // Selects the device for the streams that copy to the host.
    if (shares_thread_) (void)cuda::use_device(index_);
    // When the loader is gone, its kept memory must be freed.
    const bool keeps = kept_ && kept_->bytes() > 0;
    kept_.reset();
    if (keeps) cuda::wait_for_returned_memory();
  }

  layout_rules rules() const noexcept override {
    layout_rules rules;
    rules.tensor_alignment = tensor_alignment;
    return rules;
  }

  void keep(std::uint64_t bytes_max) override {
    kept_ = std::make_shared<free_list<device_block>>(bytes_max);
  }

  result<void> check_room(std::uint64_t bytes) override {
    auto needed = room_for(bytes, kept_ ? kept_->bytes() : 0);
    if (!needed) {
      cuda::wait_for_returned_memory();
      needed = room_for(bytes, kept_ ? kept_->bytes() : 0);
    }
    return needed ? result<void>() : needed.error();
  }

  result<std::shared_ptr<arena>> allocate(std::uint64_t bytes) override {
    if (kept_) {
      auto found = take_kept(bytes);
      if (!found) return found.error();
      if (*found) return make_arena(std::move(**found), true);
    }
    auto new_block = make_block(bytes);
    // The kept memory may be the missing memory. Memory that is being freed may be available after
    // the wait.
    if (!new_block && new_block.error().code == errc::memory_exceeded) {
      if (kept_) kept_->clear();
      cuda::wait_for_returned_memory();
      new_block = make_block(bytes);
    }
    if (!new_block) return new_block.error();
    return make_arena(std::move(*new_block), false);
  }

  result<std::span<const std::byte>> read_back(const arena& from, std::uint64_t arena_offset,
                                               std::span<std::byte> room) override {
    if (auto copied = copy_to_host(from.data() + arena_offset, room); !copied) {
      return copied.error();
    }
    return std::span<const std::byte>(room);
  }

  result<void> copy_to_host(const std::byte* from, std::span<std::byte> into) override {
    // This is a library thread, which has no current device.
    auto failed = cuda::use_device(index_);
    if (!failed) failed = readers_->copy(from, into);
    if (failed) return fault{failed, name_of(index_) + ": copying to the host"};
    return {};
  }

  result<exported_memory> export_memory(const arena& source) override {
    const auto* const ours = dynamic_cast<const cuda_arena*>(&source);
    if (ours == nullptr || ours->read_only()) {
      return fault{errc::device_unavailable, name_of(index_),
                   "its memory belongs to another process"};
    }
    return cuda::export_memory(index_, source.data(), ours->bytes());
  }

  result<std::shared_ptr<arena>> import_memory(const exported_memory& exported,
                                               std::shared_ptr<const void> keeps) override {
    auto opened = cuda::import_memory(index_, exported, std::move(keeps));
    if (!opened) return opened.error();
    (*opened)->readers = readers_;
    return make_arena(device_block(std::move(*opened)), false);
  }

  result<void> attach(boost::asio::io_context& loop, slot_region slots) override {
    const auto count = cuda::count_devices();
    if (!count) {
      return fault{count.error().code, name_of(index_), "no CUDA device: " + count.error().cause};
    }
    if (index_ < 0 || index_ >= *count) {
      return fault{errc::device_unavailable, name_of(index_),
                   "no CUDA device " + std::to_string(index_) + ": there " +
                       (*count == 1 ? "is 1" : "are " + std::to_string(*count)) +
                       ", counted from 0"};
    }
    // The engine thread belongs to the loader, so its only device is set once.
    if (auto failed = cuda::use_device(index_)) return fault{failed, name_of(index_)};
    cuda::place_near(slots.near, index_);
    shares_thread_ = slots.shared;
    slots_.emplace(slots);
    copies_.emplace(loop, *slots_, log_);
    if (auto failed = copies_->open(index_, shares_thread_)) {
      detach();
      return fault{failed, name_of(index_)};
    }
    return {};
  }

  result<std::string> pin(std::span<std::byte> slot) override {
    // This is a library thread, which has no current device.
    if (auto failed = cuda::use_device(index_)) return fault{failed, name_of(index_)};
    const auto refused = slots_->pin(slot);
    return refused ? refused.message() : std::string();
  }

  void log_to(const allocation_log& log) override {
    log_ = log;
    readers_->log_to(log);
  }

  void meet(const backend& peer_backend) noexcept override {
    const auto* const peer = dynamic_cast<const cuda_backend*>(&peer_backend);
    if (peer == nullptr || !cuda::reaches(index_, peer->index_)) return;
    try {
      peers_.push_back(&peer_backend);
    } catch (const std::bad_alloc&) {
      // Without memory for the list, this device copies everything out of slots.
    }
  }

  bool prefers(const backend& peer_backend, const copy_op& copy,
               std::size_t copies) const noexcept override {
    return cuda::is_worth_a_copy(copy, copies) &&
           std::ranges::find(peers_, &peer_backend) != peers_.end();
  }

  void start(copy_operation& op) noexcept override { copies_->start(op); }

  void detach() noexcept override {
    if (shares_thread_) (void)cuda::use_device(index_);
    peers_.clear();
    copies_.reset();
    slots_.reset();
  }

 private:
  // Returns a text with the needed and the free bytes. Fails with memory_exceeded and the same text
  // if the need is larger.
  result<std::string> room_for(std::uint64_t bytes, std::uint64_t kept_bytes) {
    // This is a library thread, which has no current device.
    if (auto failed = cuda::use_device(index_)) return fault{failed, name_of(index_)};
    std::size_t free_bytes = 0;
    std::size_t total_bytes = 0;
    if (auto failed = cuda::code_of(cudaMemGetInfo(&free_bytes, &total_bytes))) {
      return fault{failed, name_of(index_)};
    }
    std::string needed = "the tensors need " + grouped(bytes) + " bytes, " + name_of(index_) +
                         " has " + grouped(free_bytes) + " of " + grouped(total_bytes) + " free";
    if (bytes > free_bytes + kept_bytes) {
      return fault{errc::memory_exceeded, "", std::move(needed)};
    }
    return needed;
  }

  result<device_block> make_block(std::uint64_t bytes) {
    auto needed = room_for(bytes, 0);
    if (!needed) return needed.error();

    auto taken = std::make_unique<cuda::taken_memory>();
    taken->bytes = bytes;
    taken->device = index_;
    taken->readers = readers_;
    void* memory = nullptr;
    const cudaError_t outcome = cudaMalloc(&memory, bytes);
    const auto failed = cuda::code_of(outcome);
    // Free memory may be fragmented, or have been taken since it was counted.
    if (outcome == cudaErrorMemoryAllocation) {
      return fault{errc::memory_exceeded, "", *needed + ": " + failed.message()};
    }
    if (failed) return fault{failed, name_of(index_)};
    taken->address = memory;
    taken->logged = logged_allocation(log_, {"cudaMalloc", "cudaFree"}, memory, bytes);
    return device_block(std::move(taken));
  }

  // Takes kept memory. No tensor is left in it, but a consumer's kernels may still use it, so their
  // events are waited for.
  result<std::optional<device_block>> take_kept(std::uint64_t bytes) {
    auto found = kept_->take(bytes);
    if (!found) return std::optional<device_block>();
    auto failed = cuda::use_device(index_);
    if (!failed) failed = found->memory().wait_for_uses();
    if (failed) return fault{failed, name_of(index_)};
    found->memory().uses.clear();
    return found;
  }

  std::shared_ptr<arena> make_arena(device_block memory, bool was_kept) const {
    return std::make_shared<cuda_arena>(std::move(memory), was_kept, kept_);
  }

  const int index_;
  std::shared_ptr<free_list<device_block>> kept_;  // Null: no memory is kept.
  const std::shared_ptr<cuda::read_back_pool> readers_ = std::make_shared<cuda::read_back_pool>();
  std::optional<cuda::pinned> slots_;
  allocation_log log_;
  // Used in the engine thread only.
  std::vector<const backend*> peers_;  // The attached backends whose memory this device can read.
  // Other devices use the same thread, so each call selects the device again.
  bool shares_thread_ = false;
  std::optional<cuda::copier> copies_;
};

}  // namespace

device cuda_device(int index) noexcept {
  return {device_kind::cuda, index, [](int device_index) -> std::unique_ptr<backend> {
            return std::make_unique<cuda_backend>(device_index);
          }};
}

void copy_to_host(const tensor& source, std::uint64_t from, std::span<std::byte> into) {
  assert(source.device().kind() == device_kind::cuda);
  assert(from <= source.size_bytes() && into.size() <= source.size_bytes() - from);
  if (into.empty()) return;
  const device on = source.device();
  auto& memory = static_cast<cuda_arena&>(source.memory());
  boost::system::error_code failed;
  const auto copy = [&] {
    failed = memory.readers().copy(static_cast<const std::byte*>(source.data()) + from, into);
  };
  if (auto no_device = cuda::on_device(on.index(), copy)) failed = no_device;
  if (failed) throw error(failed, on.name() + ": copying to the host", {});
}

void release(const tensor& used) noexcept {
  assert(used.device().kind() == device_kind::cuda);
  static_cast<cuda_arena&>(used.memory()).release();
}

void release_after(const tensor& used, void* stream) {
  assert(used.device().kind() == device_kind::cuda);
  const device on = used.device();
  auto& memory = static_cast<cuda_arena&>(used.memory());
  boost::system::error_code failed;
  const auto record = [&] { failed = memory.add_use(static_cast<cudaStream_t>(stream)); };
  if (auto no_device = cuda::on_device(on.index(), record)) failed = no_device;
  if (failed) throw error(failed, on.name() + ": recording an event", {});
}

}  // namespace ringload::inline v0
