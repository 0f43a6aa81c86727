// SPDX-License-Identifier: Apache-2.0
#pragma once

// The interface to a device: memory for tensors, and copies from slots into it.

#include <algorithm>
#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/system/error_code.hpp>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <ringload/limits.hpp>
#include <span>
#include <string>

#include "core/fault.hpp"
#include "plan/make_plan.hpp"
#include "plan/plan.hpp"

namespace ringload::inline v0 {

// The memory of all tensors of one load. Freed with its last owner, in any thread.
class arena {
 public:
  virtual ~arena() = default;

  // A device address, aligned for tensors by layout_rules. For straight reads it is host memory,
  // aligned to a block.
  virtual std::byte* data() const noexcept = 0;

  // Whether the memory was reused from an earlier load.
  virtual bool was_kept() const noexcept = 0;

  // Whether all its pages are present. If not, populate a range before reading into it.
  virtual bool populated() const noexcept = 0;
};

// One slot's copies. It must stay at its address, and the slot unchanged, until `done` is called.
struct copy_operation {
  const std::byte* slot = nullptr;
  std::span<const copy_op> copies;
  std::span<const strided_map> maps = {};  // Of the copies' plan.
  arena* into = nullptr;
  // Destination n of a copy is beside[n - 1], memory of the caller's.
  std::span<std::byte* const> beside = {};
  boost::asio::any_io_executor threads;  // For work that would block the engine thread.
  // In the engine thread, once, and never from inside backend::start.
  void (*done)(copy_operation& self, boost::system::error_code failed) = nullptr;

  // Where a copy goes.
  std::byte* destination(const copy_op& c) const noexcept {
    std::byte* const memory = c.destination == 0 ? into->data() : beside[c.destination - 1];
    return memory + c.destination_offset;
  }

  std::uint64_t bytes() const noexcept {
    std::uint64_t sum = 0;
    for (const copy_op& c : copies) sum += c.bytes;
    return sum;
  }
  // Anything but bytes that stay as they are.
  bool converts() const noexcept {
    return std::any_of(copies.begin(), copies.end(),
                       [](const copy_op& c) { return c.as.needed() || c.map != no_index; });
  }
};

// Where the slots lie, one after the other. A slot has memory from its pin() on.
struct slot_region {
  std::span<std::byte> memory;
  std::uint64_t slot_bytes = 0;
};

class backend {
 public:
  virtual ~backend() = default;

  virtual layout_rules rules() const noexcept = 0;

  // Keeps up to `bytes_max` of freed arenas in a free list. Called once, before the first load;
  // without it nothing is kept.
  virtual void keep(std::uint64_t bytes_max) = 0;

  // Whether `bytes` could be allocated now. Checked before a plan is made, which for a sparse file
  // of many TiB would itself take gigabytes. Any thread.
  virtual result<void> check_room(std::uint64_t bytes) {
    (void)bytes;
    return {};
  }

  // Allocates the memory of one load; a fault says how much is needed and available. Any thread.
  virtual result<std::shared_ptr<arena>> allocate(std::uint64_t bytes) = 0;

  // Loaded bytes for the host to read: in place, as here, or copied into `room`, whose size is the
  // number of bytes. Any thread.
  virtual result<std::span<const std::byte>> read_back(const arena& from,
                                                       std::uint64_t arena_offset,
                                                       std::span<std::byte> room) {
    return std::span<const std::byte>(from.data() + arena_offset, room.size());
  }

  // Makes a slot, whose pages are present, memory that this device can copy from. Where it refuses,
  // the result says why: copies from there are right as well, and slower. Else it is empty. Between
  // attach and detach, before the first copy out of the slot; once, or again after it failed. Any
  // thread, and several at a time for different slots.
  virtual result<std::string> pin(std::span<std::byte> slot) {
    (void)slot;
    return std::string();
  }

  // How memory of the host is to be mapped, if any is. Called once, before the first allocate.
  virtual void use_pages(huge_pages pages) { (void)pages; }

  // Called in the engine thread, in this order: attach, any number of starts, detach once no copy
  // is in flight.

  // Opens the device. From here on `done` may be called by whatever runs in `loop`. The region may
  // be advised, but has no pages yet and must not be touched.
  virtual result<void> attach(boost::asio::io_context& loop, slot_region slots) = 0;
  // Makes the copies before it returns, in any thread, where the CPU makes them. False, and nothing
  // was done, where only start() can. `done` is not called.
  virtual bool copy_now(const copy_operation& op) noexcept {
    (void)op;
    return false;
  }
  // Reports errors through `done`: an exception would lose the waiting coroutine.
  virtual void start(copy_operation& op) noexcept = 0;
  virtual void detach() noexcept = 0;
};

}  // namespace ringload::inline v0
