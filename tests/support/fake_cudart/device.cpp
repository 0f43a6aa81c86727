// SPDX-License-Identifier: Apache-2.0
#include "support/fake_cudart/device.hpp"

#include <sys/mman.h>

#include <chrono>
#include <cstring>
#include <new>
#include <utility>

#include "core/convert.hpp"
#include "support/certain_memory.hpp"
#include "support/fake_cudart/fake_cudart.hpp"

namespace ringload::testing::fake_cudart {

namespace {

// A kernel may need no more than this alignment, so no more is given.
constexpr std::size_t address_alignment = 256;

constexpr std::size_t page_bytes = 4096;

// One thing in so many is late, and by how much at most, in microseconds.
constexpr unsigned late_one_in = 8;
constexpr unsigned late_at_most = 400;

}  // namespace

void device_side::stop() {
  {
    const std::lock_guard lock(mutex);
    stopping_ = true;
    changed.notify_all();
  }
  if (thread_.joinable()) thread_.join();
  stopping_ = false;
}

void device_side::start_if_needed() {
  if (!thread_.joinable()) thread_ = std::thread([this] { run(); });
}

bool device_side::drain(std::unique_lock<std::mutex>& lock, stream_state& which) {
  changed.wait(lock, [&] { return broken != cudaSuccess || (which.held.empty() && !which.busy); });
  return broken == cudaSuccess;
}

std::byte* device_side::allocate(std::size_t bytes, int device) {
  const std::size_t mapped = bytes + 2 * page_bytes;
  void* at = ::mmap(nullptr, mapped, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (at == MAP_FAILED) throw std::bad_alloc();
  std::byte* address = static_cast<std::byte*>(at) + address_alignment;
  blocks_[address] = {bytes, mapped, device, std::vector<std::byte>(bytes, std::byte{0xA5})};
  return address;
}

bool device_side::give_back(std::byte* address) {
  const auto found = blocks_.find(address);
  if (found == blocks_.end()) return false;
  for (const auto& stream : streams) {
    for (const work& w : stream->held) {
      // A broken device does nothing any more.
      if (broken == cudaSuccess && w.is_copy() && w.to >= address &&
          w.to < address + found->second.bytes) {
        complain("device memory is given back before a copy into it has ended");
      }
    }
  }
  ::munmap(address - address_alignment, found->second.mapped_bytes);
  blocks_.erase(found);
  return true;
}

void device_side::forget_memory() {
  for (const auto& [address, b] : blocks_) ::munmap(address - address_alignment, b.mapped_bytes);
  blocks_.clear();
}

std::byte* device_side::behind(const std::byte* address, std::size_t bytes, int device) {
  for (auto& [begin, b] : blocks_) {
    if (address < begin || address >= begin + b.bytes) continue;
    const auto offset = static_cast<std::size_t>(address - begin);
    if (bytes > b.bytes - offset || b.device != device) return nullptr;
    return b.memory.data() + offset;
  }
  return nullptr;
}

bool device_side::is_pinned(const std::byte* address, std::size_t bytes) const {
  for (const auto& [begin, size] : pinned) {
    if (address >= begin && address + bytes <= begin + size) return true;
  }
  return false;
}

std::size_t device_side::allocated(int device) const {
  std::size_t sum = 0;
  for (const auto& [address, b] : blocks_) {
    if (b.device == device || device < 0) sum += b.bytes;
  }
  return sum;
}

void device_side::run() {
  const certain_memory for_the_stand_in;
  std::unique_lock lock(mutex);
  while (!stopping_) {
    if (held || broken != cudaSuccess || !choose()) {
      changed.wait(lock);
      continue;
    }
    if (random_() % late_one_in == 0) {
      // What comes meanwhile takes part in the choice.
      const auto late = std::chrono::microseconds(random_() % late_at_most);
      changed.wait_for(lock, late, [this] { return stopping_; });
    }
    if (stopping_ || held || broken != cudaSuccess) continue;
    if (const auto in = choose()) carry_out(lock, *in);
  }
}

// Any stream whose turn has come; null if there is none.
std::shared_ptr<stream_state> device_side::choose() {
  std::vector<std::shared_ptr<stream_state>> ready;
  for (const auto& each : streams) {
    if (!each->busy && !each->held.empty() && each->held.front().may_run()) ready.push_back(each);
  }
  return ready.empty() ? nullptr : ready[random_() % ready.size()];
}

void device_side::carry_out(std::unique_lock<std::mutex>& lock, stream_state& in) {
  const work what = std::move(in.held.front());
  in.held.pop_front();
  if (what.is_copy()) {
    copy(what, in.device);
  } else if (what.reach) {
    what.reach->reached = what.times;
  } else if (what.call) {
    in.busy = true;
    lock.unlock();
    const int depth = std::exchange(certain_memory_depth, 0);
    what.call(what.with);
    certain_memory_depth = depth;
    lock.lock();
    in.busy = false;
  }
  changed.notify_all();
}

void device_side::copy(const work& what, int device) {
  if (copies_until_break > 0 && --copies_until_break == 0) {
    broken = break_with;
    return;
  }
  std::byte* to = behind(what.to, what.bytes_written(), device);
  if (to == nullptr) return complain("a copy is carried out after its target was given back");
  if (!is_pinned(what.from, what.bytes)) {
    return complain("a copy is carried out after its source was unpinned");
  }
  if (what.as.needed()) {
    convert(what.from, to, what.bytes / what.as.from_bytes(), what.as);
  } else {
    std::memcpy(to, what.from, what.bytes);
  }
  std::memset(const_cast<std::byte*>(what.from), poison, what.bytes);
}

}  // namespace ringload::testing::fake_cudart
