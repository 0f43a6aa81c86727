// SPDX-License-Identifier: Apache-2.0

// The backend for CUDA devices. By default, a load has one allocation of memory on each device. The
// backend pins slots (I/O buffers) at or before their first use, and copies from slots to the
// device.

#include <cuda_runtime_api.h>

#include <algorithm>
#include <boost/asio/io_context.hpp>
#include <chrono>
#include <memory>
#include <mutex>
#include <optional>
#include <ringload/cuda.hpp>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/checked.hpp"
#include "base/free_list.hpp"
#include "base/printable.hpp"
#include "device/backend.hpp"
#include "device/cuda/copier.hpp"
#include "device/cuda/cuda_arena.hpp"
#include "device/cuda/cufile_library.hpp"
#include "device/cuda/cufile_storage.hpp"
#include "device/cuda/device_memory.hpp"
#include "device/cuda/element_changer.hpp"
#include "device/cuda/free_memory.hpp"
#include "device/cuda/host_registration.hpp"
#include "device/cuda/numa_memory.hpp"
#include "device/cuda/peers.hpp"
#include "device/cuda/pinned.hpp"
#include "device/cuda/row_copier.hpp"
#include "device/cuda/runtime.hpp"
#include "device/cuda/scatter_plan.hpp"
#include "device/cuda/upload_rooms.hpp"
#include "device/exported_memory.hpp"

namespace ringload::inline v0 {

namespace {

using cuda::cuda_arena;
using cuda::device_block;
using cuda::name_of;

// Alignment of tensors in device memory. cudaMalloc guarantees this alignment, and the kernels of
// all known libraries accept this alignment.
constexpr std::uint64_t tensor_alignment = 256;

class cuda_backend final : public backend, public memory_exchange {
 public:
  cuda_backend(int index, bool shares_memory) : index_(index), shares_memory_(shares_memory) {}
  ~cuda_backend() override {
    // The destructor of a loader must not return before the memory of the free list is freed.
    const bool keeps = kept_ && kept_->bytes() > 0;
    kept_.reset();
    if (readers_->has_rooms()) cuda::destroy_later(index_, std::move(readers_));
    if (row_copier_) cuda::destroy_later(index_, std::move(row_copier_));
    if (changer_->is_open()) cuda::destroy_later(index_, std::move(changer_));
    if (keeps) cuda::wait_for_returned_memory();
  }

  placement_rules rules() const noexcept override {
    placement_rules rules;
    rules.tensor_alignment = tensor_alignment;
    return rules;
  }

  void keep(std::uint64_t bytes_max) override {
    kept_ = std::make_shared<free_list<device_block>>(bytes_max);
  }

  result<void> check_room(std::uint64_t bytes) override {
    auto needed = cuda::describe_free_memory(index_, bytes, kept_ ? kept_->bytes() : 0);
    if (!needed) {
      cuda::wait_for_returned_memory();
      needed = cuda::describe_free_memory(index_, bytes, kept_ ? kept_->bytes() : 0);
    }
    return needed ? result<void>() : needed.error();
  }

  result<std::shared_ptr<arena>> allocate(std::uint64_t bytes) override {
    const auto begin = std::chrono::steady_clock::now();
    const auto limit = cuda::returned_memory_wait_max;
    const auto elapsed = [&] { return std::chrono::steady_clock::now() - begin; };
    for (;;) {
      if (kept_) {
        auto found = cuda::take_unused(*kept_, index_, bytes);
        if (!found) return found.error();
        if (*found) return make_arena(std::move(**found), true);
      }
      auto new_block = make_block(bytes);
      if (new_block) return make_arena(std::move(*new_block), false);
      if (new_block.error().code != errc::memory_exceeded) return new_block.error();
      // The program may soon stop using a block of the free list.
      if (!kept_ || !kept_->has(bytes) || elapsed() >= limit / 2) break;
      std::this_thread::sleep_for(cuda::memory_poll_interval);
    }
    // Empties the free list, waits for memory that other threads are freeing, then tries again.
    if (kept_) kept_->clear();
    cuda::wait_for_returned_memory(std::chrono::ceil<std::chrono::milliseconds>(limit - elapsed()));
    auto new_block = make_block(bytes);
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
    // The calling thread is a thread of the library and has no current device.
    auto failed = cuda::use_device(index_);
    if (!failed) failed = readers_->copy(from, into, slots_ && slots_->has(into));
    if (failed) return fault{failed, name_of(index_) + ": copying to the host"};
    return {};
  }

  result<void> copy_rows(std::span<const row_copy> copies) override {
    // The calling thread is a thread of the library and has no current device.
    auto failed = cuda::use_device(index_);
    if (!failed && !row_copier_) {
      auto new_copier = std::make_unique<cuda::row_copier>();
      failed = new_copier->open();
      if (!failed) row_copier_ = std::move(new_copier);
    }
    if (!failed) failed = row_copier_->copy(copies);
    if (failed) return fault{failed, name_of(index_) + ": copying within the device"};
    return {};
  }

  result<bool> change_elements(const element_change& change) override {
    if (!runs_kernels()) return false;
    return changer_->change(index_, change, uploaders_, log_);
  }

  result<std::optional<std::uint32_t>> crc32c_of(std::span<const std::byte> bytes) override {
    if (!runs_kernels()) return std::optional<std::uint32_t>();
    return changer_->crc32c_of(index_, bytes, *readers_, log_);
  }

  result<exported_memory> export_memory(const arena& source) override {
    const auto* const ours = dynamic_cast<const cuda_arena*>(&source);
    if (ours != nullptr && ours->read_only()) {
      return fault{errc::device_unavailable, name_of(index_),
                   "its memory belongs to another process"};
    }
    const cuda::shareable_memory* const memory = ours ? ours->shareable() : nullptr;
    if (memory == nullptr) {
      return fault{errc::device_unavailable, name_of(index_),
                   "its memory is private: load it for ringload::shared_cuda_device()"};
    }
    exported_memory out;
    out.bytes = memory->bytes();
    boost::system::error_code failed;
    const auto work = [&] {
      failed = cuda::uuid_of(index_, out.on);
      if (!failed) failed = memory->share(out.descriptor);
    };
    if (auto no_device = cuda::on_device(index_, work)) failed = no_device;
    if (failed) return fault{failed, name_of(index_) + ": sharing memory with other processes"};
    return out;
  }

  result<std::shared_ptr<arena>> import_memory(const exported_memory& exported,
                                               std::shared_ptr<const void> keeps) override {
    auto opened = std::make_unique<cuda::taken_memory>();
    opened->bytes = exported.bytes;
    opened->device = index_;
    opened->readers = readers_;
    opened->is_of_another_process = true;
    opened->shareable = std::make_unique<cuda::shareable_memory>();
    std::string uuid;
    boost::system::error_code failed;
    const auto work = [&] {
      failed = cuda::uuid_of(index_, uuid);
      if (failed || uuid != exported.on) return;
      failed = opened->shareable->open(index_, exported.descriptor.get(), exported.bytes);
    };
    if (auto no_device = cuda::on_device(index_, work)) failed = no_device;
    opened->address = opened->shareable->address();
    opened->keeps = std::move(keeps);
    // The destructor of `block` lets a thread of the library free the memory on the right device.
    device_block block(std::move(opened));
    if (failed) return fault{failed, name_of(index_) + ": opening memory of another process"};
    if (uuid != exported.on) {
      return fault{errc::device_unavailable, name_of(index_),
                   "this GPU has the UUID " + uuid + ", but the memory belongs to the GPU " +
                       printable(exported.on)};
    }
    return make_arena(std::move(block), false);
  }

  std::shared_ptr<arena> share_host(const std::shared_ptr<arena>& memory,
                                    std::span<std::byte> bytes) noexcept override {
    std::shared_ptr<arena> shared;
    const auto work = [&] {
      try {
        shared = share_registered(memory, bytes);
      } catch (const std::bad_alloc&) {
        shared = nullptr;  // The caller copies the bytes instead.
      }
    };
    (void)cuda::on_device(index_, work);
    return shared;
  }

  result<void> attach(boost::asio::io_context& loop, slot_region slots) override {
    if (auto exists = cuda::check_device(index_); !exists) return exists;
    // Selects the device for all later calls in the engine thread. If other devices share the
    // thread, each call selects its device again.
    if (auto failed = cuda::use_device(index_)) return fault{failed, name_of(index_)};
    cuda::place_near(slots.near, index_);
    shares_thread_ = slots.shared;
    slots_ = std::make_unique<cuda::pinned>(slots);
    copies_.emplace(loop, *slots_, log_);
    if (auto failed = copies_->open(index_, shares_thread_)) {
      detach();
      return fault{failed, name_of(index_)};
    }
    return {};
  }

  result<std::string> pin(std::span<std::byte> slot) override {
    // The calling thread is a thread of the library and has no current device.
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
    // Shareable memory is mapped only for its own device, so no peer can read the memory.
    if (peer == nullptr || peer->shares_memory_) return;
    try {
      peers_.push_back({peer});
    } catch (const std::bad_alloc&) {
      // Without an entry in the list, this device copies all bytes from slots.
    }
  }

  bool prefers(const backend& peer_backend, const copy_op& copy,
               std::size_t copies) const noexcept override {
    if (!cuda::is_worth_a_copy(copy, copies)) return false;
    const auto found = std::ranges::find(peers_, &peer_backend, &peer_state::peer);
    if (found == peers_.end()) return false;
    // Tests the connection only when a copy needs the connection, because the test is slow and
    // makes all memory of the peer accessible to this device.
    if (!found->reachable) found->reachable = cuda::reaches(index_, found->peer->index_, log_);
    return *found->reachable;
  }

  result<std::unique_ptr<uploader>> take_uploader() override {
    auto taken = uploaders_.take(index_, copies_->no_kernels(), log_);
    if (!taken) return taken.error().in(name_of(index_));
    return std::unique_ptr<uploader>(std::move(*taken));
  }

  void return_uploader(std::unique_ptr<uploader> used) noexcept override {
    uploaders_.put(
        std::unique_ptr<cuda::upload_rooms>(static_cast<cuda::upload_rooms*>(used.release())));
  }

  std::optional<cpu_set_t> near_processors() override { return cuda::processors_near(index_); }

  result<std::unique_ptr<direct_storage>> open_storage(std::uint32_t slots,
                                                       std::uint64_t slot_bytes) override {
    const auto driver = cuda::cufile::open_driver(index_);
    if (!driver) return driver.error();
    auto storage = std::make_unique<cuda::cufile_storage>(index_, **driver, slot_bytes);
    if (auto failed = storage->open(slots, log_)) return fault{failed, name_of(index_)};
    return std::unique_ptr<direct_storage>(std::move(storage));
  }

  void start(copy_operation& op) noexcept override { copies_->start(op); }

  void detach() noexcept override {
    if (shares_thread_) (void)cuda::use_device(index_);
    peers_.clear();
    uploaders_.clear(index_);
    copies_.reset();
    if (slots_) cuda::destroy_later(index_, std::move(slots_));
  }

 private:
  bool runs_kernels() const noexcept { return copies_ && !copies_->no_kernels(); }

  result<device_block> make_block(std::uint64_t bytes) {
    auto needed = cuda::describe_free_memory(index_, bytes, 0);
    if (!needed) return needed.error();

    auto taken = std::make_unique<cuda::taken_memory>();
    taken->bytes = bytes;
    taken->device = index_;
    taken->readers = readers_;
    const auto failed = take_memory(*taken);
    // describe_free_memory() has found enough free memory. But the free memory may be fragmented,
    // or another program may have just allocated the memory.
    if (failed.value() == cudaErrorMemoryAllocation) {
      return fault{errc::memory_exceeded, "", *needed + ": " + failed.message()};
    }
    if (failed) return fault{failed, name_of(index_)};
    return device_block(std::move(taken));
  }

  boost::system::error_code take_memory(cuda::taken_memory& taken) {
    if (shares_memory_) {
      taken.shareable = std::make_unique<cuda::shareable_memory>();
      if (auto failed = taken.shareable->make(index_, taken.bytes)) return failed;
      taken.address = taken.shareable->address();
      taken.logged = logged_allocation(log_, {"cuMemCreate", "cuMemRelease"}, taken.address,
                                       taken.shareable->bytes());
      return {};
    }
    void* memory = nullptr;
    if (auto failed = cuda::code_of(cudaMalloc(&memory, taken.bytes))) return failed;
    taken.address = memory;
    taken.logged = logged_allocation(log_, {"cudaMalloc", "cudaFree"}, memory, taken.bytes);
    return {};
  }

  // Returns null if the memory cannot be shared. Only an integrated GPU may share memory with the
  // host, because any other GPU would read the memory over the bus.
  std::shared_ptr<arena> share_registered(const std::shared_ptr<arena>& memory,
                                          std::span<std::byte> bytes) const {
    mapping* const mapped = memory->host_mapping();
    const bool is_aligned = reinterpret_cast<std::uintptr_t>(bytes.data()) % tensor_alignment == 0;
    int is_integrated = 0;
    if (cuda::code_of(cudaDeviceGetAttribute(&is_integrated, cudaDevAttrIntegrated, index_))) {
      return nullptr;
    }
    if (is_integrated == 0 || mapped == nullptr || !is_aligned || bytes.empty()) return nullptr;
    const auto registered = cuda::register_mapping(index_, *mapped, memory->read_only());
    if (!registered || !(*registered)->covers(bytes)) return nullptr;
    auto taken = std::make_unique<cuda::taken_memory>();
    if (cuda::code_of(cudaHostGetDevicePointer(&taken->address, bytes.data(), 0))) return nullptr;
    taken->bytes = bytes.size();
    taken->device = index_;
    taken->readers = readers_;
    taken->is_borrowed = true;
    taken->is_of_another_process = memory->read_only();
    taken->keeps = memory;
    return make_arena(device_block(std::move(taken)), false);
  }

  std::shared_ptr<arena> make_arena(device_block memory, bool was_kept) const {
    return std::make_shared<cuda_arena>(std::move(memory), was_kept, kept_);
  }

  const int index_;
  const bool shares_memory_;
  std::shared_ptr<free_list<device_block>> kept_;  // Null if no memory is kept.
  std::shared_ptr<cuda::read_back_pool> readers_ = std::make_shared<cuda::read_back_pool>();
  std::unique_ptr<cuda::row_copier> row_copier_;  // Null until the first call of copy_rows().
  std::unique_ptr<cuda::shared_element_changer> changer_ =
      std::make_unique<cuda::shared_element_changer>();
  std::unique_ptr<cuda::pinned> slots_;
  allocation_log log_;
  cuda::upload_pool uploaders_;
  // Only the engine thread uses the peers.
  struct peer_state {
    const cuda_backend* peer;
    std::optional<bool> reachable = std::nullopt;  // Empty until the first query.
  };
  mutable std::vector<peer_state> peers_;  // Other CUDA backends with private memory.
  // True if other devices also use the engine thread. Each call then selects the device again.
  bool shares_thread_ = false;
  std::optional<cuda::copier> copies_;
};

template <bool Shared>
std::unique_ptr<backend> make_backend(int index) {
  return std::make_unique<cuda_backend>(index, Shared);
}

}  // namespace

device cuda_device(int index) noexcept { return {device_kind::cuda, index, make_backend<false>}; }

device shared_cuda_device(int index) noexcept {
  return {device_kind::cuda, index, make_backend<true>};
}

}  // namespace ringload::inline v0
