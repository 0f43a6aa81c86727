// SPDX-License-Identifier: Apache-2.0

// A CUDA device: slots are pinned where they are, when they are first needed, and copied from into
// one allocation for each load. How the engine thread learns that a copy has ended stands in
// copier.hpp.

#include <cuda_runtime_api.h>

#include <boost/asio/io_context.hpp>
#include <cassert>
#include <memory>
#include <optional>
#include <ringload/cuda.hpp>
#include <ringload/error.hpp>
#include <string>
#include <utility>

#include "core/free_list.hpp"
#include "device/backend.hpp"
#include "device/block_arena.hpp"
#include "device/cuda/copier.hpp"
#include "device/cuda/pinned.hpp"
#include "device/cuda/runtime.hpp"

namespace ringload::inline v0 {

namespace {

// What kernels want of a tensor's address: cudaMalloc promises as much, and no library asks more.
constexpr std::uint64_t tensor_alignment = 256;

std::string name_of(int index) { return "cuda:" + std::to_string(index); }

// Memory of a device.
class device_block {
 public:
  // Takes the memory over.
  device_block(void* memory, std::uint64_t bytes, int index) noexcept
      : memory_(static_cast<std::byte*>(memory)), bytes_(bytes), index_(index) {}
  device_block(device_block&& other) noexcept
      : memory_(std::exchange(other.memory_, nullptr)),
        bytes_(other.bytes_),
        index_(other.index_) {}
  device_block& operator=(device_block&& other) noexcept {
    std::swap(memory_, other.memory_);
    std::swap(bytes_, other.bytes_);
    std::swap(index_, other.index_);
    return *this;
  }

  // Waits for the work that the device still has, so a consumer's kernel never loses its input.
  ~device_block() {
    if (!memory_) return;
    const auto free = [this] { (void)cuda::code_of(cudaFree(memory_)); };
    // The address says which device it belongs to; the right thread is only the better one.
    if (cuda::on_device(index_, free)) free();
  }

  std::byte* data() const noexcept { return memory_; }
  std::uint64_t bytes() const noexcept { return bytes_; }

 private:
  std::byte* memory_;  // Null after it was moved from.
  std::uint64_t bytes_;
  int index_;
};

class cuda_backend final : public backend {
 public:
  explicit cuda_backend(int index) noexcept : index_(index) {}

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
    return needed ? result<void>() : needed.error();
  }

  result<std::shared_ptr<arena>> allocate(std::uint64_t bytes) override {
    if (kept_) {
      auto found = take_kept(bytes);
      if (!found) return found.error();
      if (*found) return own(std::move(**found), true);
    }
    auto made = make_block(bytes);
    // What is kept may be what is missing.
    if (!made && made.error().code == errc::memory_exceeded && kept_ && kept_->bytes() > 0) {
      kept_->clear();
      made = make_block(bytes);
    }
    if (!made) return made.error();
    return own(std::move(*made), false);
  }

  result<std::span<const std::byte>> read_back(const arena& from, std::uint64_t arena_offset,
                                               std::span<std::byte> room) override {
    // One of the library's own threads, which has no device of its own.
    auto failed = cuda::use_device(index_);
    if (!failed) {
      failed = cuda::code_of(
          cudaMemcpy(room.data(), from.data() + arena_offset, room.size(), cudaMemcpyDeviceToHost));
    }
    if (failed) return fault{failed, name_of(index_) + ": copying to the host"};
    return std::span<const std::byte>(room);
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
    // The engine thread belongs to the loader, so its device is set once.
    if (auto failed = cuda::use_device(index_)) return fault{failed, name_of(index_)};
    slots_.emplace(slots);
    copies_.emplace(loop, *slots_);
    if (auto failed = copies_->open()) {
      detach();
      return fault{failed, name_of(index_)};
    }
    return {};
  }

  result<void> pin(std::span<std::byte> slot) override {
    // One of the library's own threads, which has no device of its own.
    auto failed = cuda::use_device(index_);
    if (!failed) failed = slots_->pin(slot);
    if (failed) return fault{failed, name_of(index_) + ": pinning a slot"};
    return {};
  }

  void start(copy_operation& op) noexcept override { copies_->start(op); }

  void detach() noexcept override {
    copies_.reset();
    slots_.reset();
  }

 private:
  // How much is needed and how much there is, in words; memory_exceeded with them where that is too
  // much.
  result<std::string> room_for(std::uint64_t bytes, std::uint64_t kept_bytes) {
    // One of the library's own threads, which has no device of its own.
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

    void* memory = nullptr;
    const cudaError_t said = cudaMalloc(&memory, bytes);
    const auto failed = cuda::code_of(said);
    // Free memory may be in pieces, or gone since it was counted.
    if (said == cudaErrorMemoryAllocation) {
      return fault{errc::memory_exceeded, "", *needed + ": " + failed.message()};
    }
    if (failed) return fault{failed, name_of(index_)};
    return device_block(memory, bytes, index_);
  }

  // Nobody has the tensors any more that lay in it, but a consumer's kernel may still read them.
  result<std::optional<device_block>> take_kept(std::uint64_t bytes) {
    auto found = kept_->take(bytes);
    if (!found) return std::optional<device_block>();
    if (auto failed = cuda::use_device(index_)) return fault{failed, name_of(index_)};
    const cudaError_t said = cudaDeviceSynchronize();
    const auto failed = cuda::code_of(said);
    // Of a device for which a graph is being captured it cannot be known now.
    if (said == cudaErrorStreamCaptureUnsupported) {
      kept_->put(std::move(*found));
      return std::optional<device_block>();
    }
    if (failed) return fault{failed, name_of(index_)};
    return found;
  }

  std::shared_ptr<arena> own(device_block memory, bool was_kept) const {
    return std::make_shared<block_arena<device_block>>(std::move(memory), was_kept, true, kept_);
  }

  const int index_;
  std::shared_ptr<free_list<device_block>> kept_;  // Null: nothing is kept.
  std::optional<cuda::pinned> slots_;
  // In the engine thread only.
  std::optional<cuda::copier> copies_;
};

}  // namespace

device cuda_device(int index) noexcept {
  return {device_kind::cuda, index, [](int which) -> std::unique_ptr<backend> {
            return std::make_unique<cuda_backend>(which);
          }};
}

void copy_to_host(const tensor& source, std::uint64_t from, std::span<std::byte> into) {
  assert(source.device().kind() == device_kind::cuda);
  assert(from <= source.bytes() && into.size() <= source.bytes() - from);
  if (into.empty()) return;
  const device on = source.device();
  boost::system::error_code failed;
  const auto copy = [&] {
    failed = cuda::code_of(cudaMemcpy(into.data(), static_cast<std::byte*>(source.data()) + from,
                                      into.size(), cudaMemcpyDeviceToHost));
  };
  if (auto no_device = cuda::on_device(on.index(), copy)) failed = no_device;
  if (failed) throw error(failed, on.name() + ": copying to the host", {});
}

}  // namespace ringload::inline v0
