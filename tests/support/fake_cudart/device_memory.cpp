// SPDX-License-Identifier: Apache-2.0
#include "support/fake_cudart/device_memory.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>
#include <new>
#include <utility>

#include "support/fake_cudart/fake_cudart.hpp"

namespace ringload::testing::fake_cudart {

namespace {

// A kernel must not need more than this alignment, so addresses have exactly this alignment. The
// memory behind an address has the same alignment, because kernels run on it.
constexpr std::size_t address_alignment = 256;

constexpr std::size_t page_bytes = 4096;

std::size_t mapped_for(std::size_t bytes) {
  return (bytes + 2 * page_bytes) / page_bytes * page_bytes;
}

// Null after a failure.
std::byte* mapped_memory(const unique_fd& of, std::size_t bytes) {
  void* const at = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, of.get(), 0);
  return at == MAP_FAILED ? nullptr : static_cast<std::byte*>(at);
}

const std::byte* bytes_at(const void* address) { return static_cast<const std::byte*>(address); }

}  // namespace

void device_memory::free_delete::operator()(std::byte* memory) const noexcept {
  if (mapped_bytes > 0) {
    ::munmap(memory, mapped_bytes);
    return;
  }
  ::operator delete[](memory, std::align_val_t{address_alignment});
}

std::byte* device_memory::new_address(std::size_t mapped) {
  auto& before = addresses_[mapped];
  if (before.empty()) {
    void* fresh = ::mmap(nullptr, mapped, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (fresh == MAP_FAILED) throw std::bad_alloc();
    return static_cast<std::byte*>(fresh) + address_alignment;
  }
  std::byte* const at = before.back();
  before.pop_back();
  return at;
}

std::byte* device_memory::allocate(std::size_t bytes, int device) {
  const std::size_t mapped = mapped_for(bytes);
  std::byte* const at = new_address(mapped);
  void* memory = ::operator new[](bytes, std::align_val_t{address_alignment});
  std::memset(memory, 0xA5, bytes);
  block& made = blocks_[at];
  made = {bytes, mapped, device, {}, false, false, true, true};
  made.memory.reset(static_cast<std::byte*>(memory));
  return at;
}

std::size_t device_memory::bytes_of(const std::byte* address) const {
  const auto found = blocks_.find(address);
  return found == blocks_.end() ? 0 : found->second.bytes;
}

std::size_t device_memory::give_back(std::byte* address) {
  const auto found = blocks_.find(address);
  if (found == blocks_.end() || found->second.is_mapped) return 0;
  const std::size_t bytes = found->second.bytes;
  addresses_[found->second.mapped_bytes].push_back(address);
  blocks_.erase(found);
  return bytes;
}

std::uint64_t device_memory::create_shareable(std::size_t bytes, int device) {
  auto file = std::make_shared<const unique_fd>(::memfd_create("fake_cudart", MFD_CLOEXEC));
  if (!*file || ::ftruncate(file->get(), static_cast<::off_t>(bytes)) != 0) return 0;
  shareable_[++last_handle_] = {std::move(file), bytes, device, false};
  return last_handle_;
}

std::uint64_t device_memory::import_shareable(int descriptor, int device) {
  auto file = std::make_shared<const unique_fd>(::fcntl(descriptor, F_DUPFD_CLOEXEC, 0));
  struct ::stat status = {};
  if (!*file || ::fstat(file->get(), &status) != 0 || !S_ISREG(status.st_mode)) return 0;
  shareable_[++last_handle_] = {std::move(file), static_cast<std::size_t>(status.st_size), device,
                                true};
  return last_handle_;
}

int device_memory::descriptor_of_shareable(std::uint64_t handle) const {
  const auto found = shareable_.find(handle);
  return found == shareable_.end() ? -1 : ::fcntl(found->second.file->get(), F_DUPFD_CLOEXEC, 0);
}

std::byte* device_memory::reserve(std::size_t bytes) {
  void* const at = ::mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (at == MAP_FAILED) throw std::bad_alloc();
  reserved_[static_cast<std::byte*>(at)] = bytes;
  return static_cast<std::byte*>(at);
}

bool device_memory::free_reserved(std::byte* address, std::size_t bytes) {
  const auto found = reserved_.find(address);
  if (found == reserved_.end() || found->second != bytes || blocks_.count(address) != 0) {
    return false;
  }
  reserved_.erase(found);
  ::munmap(address, bytes);
  return true;
}

bool device_memory::map_shareable(std::byte* address, std::size_t bytes, std::uint64_t handle) {
  const auto room = reserved_.find(address);
  const auto found = shareable_.find(handle);
  if (room == reserved_.end() || room->second != bytes || found == shareable_.end() ||
      found->second.bytes != bytes || blocks_.count(address) != 0) {
    return false;
  }
  std::byte* const memory = mapped_memory(*found->second.file, bytes);
  if (memory == nullptr) return false;
  block& made = blocks_[address];
  made = {bytes,
          bytes,
          found->second.device,
          {memory, free_delete{bytes}},
          true,
          found->second.of_another_process,
          false,
          false};
  return true;
}

bool device_memory::unmap_shareable(std::byte* address, std::size_t bytes) {
  const auto found = blocks_.find(address);
  if (found == blocks_.end() || !found->second.is_mapped || found->second.bytes != bytes) {
    return false;
  }
  blocks_.erase(found);
  return true;
}

bool device_memory::set_access(std::byte* address, std::size_t bytes, bool may_write) {
  const auto found = blocks_.find(address);
  if (found == blocks_.end() || !found->second.is_mapped || found->second.bytes != bytes) {
    return false;
  }
  found->second.may_read = true;
  found->second.may_write = may_write;
  return true;
}

bool device_memory::is_read_only(const void* address) const {
  auto after = blocks_.upper_bound(bytes_at(address));
  return after != blocks_.begin() && !(--after)->second.may_write;
}

void device_memory::forget() {
  for (auto& [address, b] : blocks_) {
    if (b.is_mapped) continue;
    addresses_[b.mapped_bytes].push_back(const_cast<std::byte*>(address));
  }
  for (const auto& [mapped, all] : addresses_) {
    for (std::byte* address : all) ::munmap(address - address_alignment, mapped);
  }
  for (const auto& [address, bytes] : reserved_) {
    ::munmap(const_cast<std::byte*>(address), bytes);
  }
  addresses_.clear();
  blocks_.clear();
  shareable_.clear();
  reserved_.clear();
  pinned_.clear();
}

std::byte* device_memory::own(const void* address, std::size_t bytes, int device) const {
  auto after = blocks_.upper_bound(bytes_at(address));
  if (after == blocks_.begin()) return nullptr;
  const auto& [begin, b] = *--after;
  const auto offset = static_cast<std::size_t>(bytes_at(address) - begin);
  if (offset >= b.bytes || bytes > b.bytes - offset || b.device != device || !b.may_read) {
    return nullptr;
  }
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

void device_memory::note_drive(const void* address) {
  auto after = blocks_.upper_bound(bytes_at(address));
  if (after != blocks_.begin()) (--after)->second.of_drive = true;
}

bool device_memory::is_of_drive(const void* address) const {
  auto after = blocks_.upper_bound(bytes_at(address));
  return after != blocks_.begin() && (--after)->second.of_drive;
}

std::size_t device_memory::allocated(int device) const {
  std::size_t sum = 0;
  for (const auto& [address, b] : blocks_) {
    const bool counts = device < 0 || (b.device == device && !b.of_another_process);
    if (counts) sum += b.bytes;
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
