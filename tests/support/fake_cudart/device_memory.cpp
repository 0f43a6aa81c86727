// SPDX-License-Identifier: Apache-2.0
#include "support/fake_cudart/device_memory.hpp"

#include <sys/mman.h>

#include <cstring>
#include <new>

#include "support/fake_cudart/fake_cudart.hpp"

namespace ringload::testing::fake_cudart {

namespace {

// A kernel may need no more than this alignment, so no more is given; and the same behind the
// addresses as in them, for kernels run on what is behind.
constexpr std::size_t address_alignment = 256;

constexpr std::size_t page_bytes = 4096;

const std::byte* bytes_at(const void* address) { return static_cast<const std::byte*>(address); }

}  // namespace

void device_memory::free_delete::operator()(std::byte* memory) const noexcept {
  ::operator delete[](memory, std::align_val_t{address_alignment});
}

std::byte* device_memory::allocate(std::size_t bytes, int device) {
  const std::size_t mapped = (bytes + 2 * page_bytes) / page_bytes * page_bytes;
  std::byte* at = nullptr;
  auto& before = addresses_[mapped];
  if (before.empty()) {
    void* fresh = ::mmap(nullptr, mapped, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (fresh == MAP_FAILED) throw std::bad_alloc();
    at = static_cast<std::byte*>(fresh) + address_alignment;
  } else {
    at = before.back();
    before.pop_back();
  }
  void* memory = ::operator new[](bytes, std::align_val_t{address_alignment});
  std::memset(memory, 0xA5, bytes);
  block& made = blocks_[at];
  made = {bytes, mapped, device, {}};
  made.memory.reset(static_cast<std::byte*>(memory));
  return at;
}

std::size_t device_memory::give_back(std::byte* address) {
  const auto found = blocks_.find(address);
  if (found == blocks_.end()) return 0;
  const std::size_t bytes = found->second.bytes;
  addresses_[found->second.mapped_bytes].push_back(address);
  blocks_.erase(found);
  return bytes;
}

void device_memory::forget() {
  for (auto& [address, b] : blocks_) {
    addresses_[b.mapped_bytes].push_back(const_cast<std::byte*>(address));
  }
  for (const auto& [mapped, all] : addresses_) {
    for (std::byte* address : all) ::munmap(address - address_alignment, mapped);
  }
  addresses_.clear();
  blocks_.clear();
  pinned_.clear();
}

std::byte* device_memory::own(const void* address, std::size_t bytes, int device) const {
  auto after = blocks_.upper_bound(bytes_at(address));
  if (after == blocks_.begin()) return nullptr;
  const auto& [begin, b] = *--after;
  const auto offset = static_cast<std::size_t>(bytes_at(address) - begin);
  if (offset >= b.bytes || bytes > b.bytes - offset || b.device != device) return nullptr;
  return b.memory.get() + offset;
}

bool device_memory::is_own(const void* address, std::size_t bytes, int device) const {
  return own(address, bytes, device) != nullptr;
}

std::byte* device_memory::behind(const void* address, std::size_t bytes, int device) const {
  if (std::byte* const mine = own(address, bytes, device)) return mine;
  const auto there = reinterpret_cast<std::uintptr_t>(address);
  if (there < mapped_at) return nullptr;
  auto* const host = reinterpret_cast<std::byte*>(there - mapped_at);
  return is_pinned(host, bytes, device) ? host : nullptr;
}

std::size_t device_memory::allocated(int device) const {
  std::size_t sum = 0;
  for (const auto& [address, b] : blocks_) {
    if (b.device == device || device < 0) sum += b.bytes;
  }
  return sum;
}

bool device_memory::pin(std::byte* memory, std::size_t bytes, int device, bool portable) {
  if (range_of(memory, 1)) return false;
  pinned_[memory] = {bytes, device, portable};
  return true;
}

std::vector<const void*> device_memory::pinned() const {
  std::vector<const void*> all;
  for (const auto& [begin, range] : pinned_) all.push_back(begin);
  return all;
}

const device_memory::pinned_range* device_memory::range_of(const void* memory,
                                                           std::size_t bytes) const {
  auto after = pinned_.upper_bound(bytes_at(memory));
  if (after == pinned_.begin()) return nullptr;
  const auto& [begin, range] = *--after;
  const auto offset = static_cast<std::size_t>(bytes_at(memory) - begin);
  return offset < range.bytes && bytes <= range.bytes - offset ? &range : nullptr;
}

bool device_memory::is_pinned(const void* memory, std::size_t bytes, int device) const {
  const pinned_range* const range = range_of(memory, bytes);
  return range && (range->portable || range->device == device);
}

bool device_memory::is_portable(const void* memory) const {
  const pinned_range* const range = range_of(memory, 1);
  return range && range->portable;
}

}  // namespace ringload::testing::fake_cudart
