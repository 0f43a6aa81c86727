// SPDX-License-Identifier: Apache-2.0
#include "support/fake_cudart/device_memory.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>
#include <new>
#include <string>
#include <utility>

#include "support/fake_cudart/fake_cudart.hpp"

namespace ringload::testing::fake_cudart {

namespace {

// A kernel may need no more than this alignment, so no more is given; and the same behind the
// addresses as in them, for kernels run on what is behind.
constexpr std::size_t address_alignment = 256;

constexpr std::size_t page_bytes = 4096;

std::size_t mapped_for(std::size_t bytes) {
  return (bytes + 2 * page_bytes) / page_bytes * page_bytes;
}

// Null where that fails.
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
  made = {bytes, mapped, device, {}, {}, false};
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

bool device_memory::share(std::byte* address, shared_block& named) {
  const auto found = blocks_.find(address);
  if (found == blocks_.end() || found->second.of_another_process) return false;
  block& b = found->second;
  if (!b.shared) {
    const std::size_t mapped = mapped_for(b.bytes);
    unique_fd made(::memfd_create("fake_cudart", MFD_CLOEXEC));
    if (!made || ::ftruncate(made.get(), static_cast<::off_t>(mapped)) != 0) return false;
    std::byte* const memory = mapped_memory(made, mapped);
    if (memory == nullptr) return false;
    std::memcpy(memory, b.memory.get(), b.bytes);
    b.memory = std::unique_ptr<std::byte[], free_delete>(memory, free_delete{mapped});
    b.shared = std::move(made);
  }
  struct ::stat is = {};
  if (::fstat(b.shared.get(), &is) != 0) return false;
  named = {::getpid(), b.shared.get(), is.st_ino, b.bytes, b.device};
  return true;
}

std::byte* device_memory::open(const shared_block& named, int device) {
  if (named.device != device) return nullptr;
  const std::string path =
      "/proc/" + std::to_string(named.process) + "/fd/" + std::to_string(named.descriptor);
  unique_fd opened(::open(path.c_str(), O_RDWR | O_CLOEXEC));
  struct ::stat is = {};
  if (!opened || ::fstat(opened.get(), &is) != 0 || is.st_ino != named.file) return nullptr;
  if (::flock(opened.get(), LOCK_SH | LOCK_NB) != 0) return nullptr;
  const std::size_t mapped = mapped_for(named.bytes);
  std::byte* const memory = mapped_memory(opened, mapped);
  if (memory == nullptr) return nullptr;
  std::byte* const at = new_address(mapped);
  block& made = blocks_[at];
  made = {named.bytes, mapped, device, {memory, free_delete{mapped}}, std::move(opened), true};
  return at;
}

bool device_memory::is_of_another_process(const std::byte* address) const {
  const auto found = blocks_.find(address);
  return found != blocks_.end() && found->second.of_another_process;
}

bool device_memory::is_open_elsewhere(const std::byte* address) const {
  const auto found = blocks_.find(address);
  if (found == blocks_.end() || !found->second.shared || found->second.of_another_process) {
    return false;
  }
  // A process that is killed lets go of it in its own time.
  for (int tries = 0; tries < 1000; ++tries) {
    if (::flock(found->second.shared.get(), LOCK_EX | LOCK_NB) == 0) return false;
    ::usleep(1000);
  }
  return true;
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
