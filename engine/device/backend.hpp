// SPDX-License-Identifier: Apache-2.0
#pragma once

// The interface to a device: memory for tensors, and copies from slots into it.

#include <algorithm>
#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/system/error_code.hpp>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <ringload/allocation_log.hpp>
#include <ringload/limits.hpp>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "core/block.hpp"
#include "core/busy_time.hpp"
#include "core/fault.hpp"
#include "plan/make_plan.hpp"
#include "plan/plan.hpp"

namespace ringload::inline v0 {

// Memory that tensors of one load lie in. Freed with its last owner, in any thread.
class arena {
 public:
  virtual ~arena() = default;

  // A device address, aligned as was asked for.
  virtual std::byte* data() const noexcept = 0;

  // Whether the memory was reused from an earlier load.
  virtual bool was_kept() const noexcept = 0;

  // Whether all its pages are present. If not, populate a range before reading into it.
  virtual bool populated() const noexcept = 0;

  // Whether writing to it is an access violation.
  virtual bool read_only() const noexcept { return false; }

  // Of the memfd that begins at data(), open for reading as long as this lives; or -1.
  virtual int descriptor() const noexcept { return -1; }
};

struct arena_size {
  std::uint64_t bytes = 0;
  std::uint64_t alignment = block_bytes;  // A power of two, at most this.
};

// One slot's copies. It must stay at its address, and the slot unchanged, until `done` is called.
struct copy_operation {
  const std::byte* slot = nullptr;
  bool peer = false;  // `slot` is memory of another device, which this one has met.
  std::span<const copy_op> copies;
  std::span<const strided_map> maps = {};         // Of the copies' plan.
  std::span<std::byte* const> destinations = {};  // By destination of that plan.
  boost::asio::any_io_executor threads;           // For work that would block the engine thread.
  busy_time* times = nullptr;  // Told when one of them copies; null: nobody asks.
  // In the engine thread, once, and never from inside backend::start.
  void (*done)(copy_operation& self, boost::system::error_code failed) = nullptr;

  // Where a copy goes.
  std::byte* destination(const copy_op& c) const noexcept {
    return destinations[c.destination] + c.destination_offset;
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
  std::span<std::byte> near = {};  // The part that is to lie near the device, if any is.
  bool shared = false;             // Other devices copy from the slots too, in the same thread.
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

  // Allocates memory for tensors; a fault says how much is needed and available. Any thread.
  virtual result<std::shared_ptr<arena>> allocate(std::uint64_t bytes) = 0;
  // All memory of one load, or none.
  virtual result<std::vector<std::shared_ptr<arena>>> allocate_all(
      std::span<const arena_size> sizes) {
    std::vector<std::shared_ptr<arena>> made;
    for (const arena_size& each : sizes) {
      auto one = allocate(each.bytes);
      if (!one) return one.error();
      made.push_back(std::move(*one));
    }
    return made;
  }

  // Loaded bytes for the host to read: in place, as here, or copied into `room`, whose size is the
  // number of bytes. Any thread.
  virtual result<std::span<const std::byte>> read_back(const arena& from,
                                                       std::uint64_t arena_offset,
                                                       std::span<std::byte> room) {
    return std::span<const std::byte>(from.data() + arena_offset, room.size());
  }

  // Copies memory of the device, of an arena or of the caller's, to the host. All work on it must
  // be complete. Any thread, attached or not.
  virtual result<void> copy_to_host(const std::byte* from, std::span<std::byte> into) {
    std::memcpy(into.data(), from, into.size());
    return {};
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

  // Where its allocations are written, if anywhere. Called once, before the first allocate.
  virtual void log_to(const allocation_log& log) { (void)log; }

  // Called in the engine thread, in this order: attach, any number of starts, detach once no copy
  // is in flight.

  // Opens the device. From here on `done` may be called by whatever runs in `loop`. The region may
  // be advised, but has no pages yet and must not be touched.
  virtual result<void> attach(boost::asio::io_context& loop, slot_region slots) = 0;
  // Finds out whether this device can copy out of memory of `other`. In the engine thread, once
  // both are attached.
  virtual void meet(const backend& other) noexcept { (void)other; }
  // Whether it would rather copy this out of an arena of `other`, where it has just been brought,
  // than out of the slot: `one` of `copies`, whose bytes stay as they are.
  virtual bool prefers(const backend& other, const copy_op& one,
                       std::size_t copies) const noexcept {
    (void)other, (void)one, (void)copies;
    return false;
  }
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
