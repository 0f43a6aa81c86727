// SPDX-License-Identifier: Apache-2.0
#pragma once

// The interface of a device: memory for tensors, and copies from slots into it.

#include <algorithm>
#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/system/error_code.hpp>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <ringload/allocation_log.hpp>
#include <ringload/options.hpp>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/fault.hpp"
#include "base/io_unit.hpp"
#include "base/work_interval.hpp"
#include "plan/make_plan.hpp"
#include "plan/plan.hpp"

namespace ringload::inline v0 {

// Memory for the tensors of one load. The last owner frees it, in any thread.
class arena {
 public:
  virtual ~arena() = default;

  // A device address with the requested alignment.
  virtual std::byte* data() const noexcept = 0;

  // Returns true if the memory was reused from an earlier load.
  virtual bool was_kept() const noexcept = 0;

  // Returns true if all pages are present. Otherwise a range must be populated before a read into
  // it.
  virtual bool populated() const noexcept = 0;

  // Returns true if writing to the memory is an access violation.
  virtual bool read_only() const noexcept { return false; }

  // Descriptor of the memfd that begins at data(), open for reading during the arena's life, or -1.
  virtual int descriptor() const noexcept { return -1; }
};

struct arena_size {
  std::uint64_t bytes = 0;
  std::uint64_t alignment = block_bytes;  // A power of two, at most this value.
};

// The copies of one slot. The operation must stay at its address, and the slot unchanged, until
// `done` is called.
struct copy_operation {
  const std::byte* slot = nullptr;
  bool peer = false;  // `slot` is memory of another device, which this device has met.
  std::span<const copy_op> copies;
  std::span<const strided_map> maps = {};         // The maps of the plan.
  std::span<std::byte* const> destinations = {};  // Indexed by the plan's destination numbers.
  boost::asio::any_io_executor threads;           // Runs work that would block the engine thread.
  work_interval* times = nullptr;  // Records the work of copying threads; null: not traced.
  // Called once in the engine thread, never from inside backend::start.
  void (*done)(copy_operation& self, boost::system::error_code failed) = nullptr;

  // Returns the target address of a copy.
  std::byte* destination(const copy_op& c) const noexcept {
    return destinations[c.destination] + c.destination_offset;
  }

  std::uint64_t bytes() const noexcept {
    std::uint64_t sum = 0;
    for (const copy_op& c : copies) sum += c.bytes;
    return sum;
  }
  // Returns true if a copy does more than move bytes unchanged.
  bool converts() const noexcept {
    return std::any_of(copies.begin(), copies.end(),
                       [](const copy_op& c) { return c.cast.needed() || c.map != no_index; });
  }
};

// The location of the slots, one after another. A slot has memory after its pin().
struct slot_region {
  std::span<std::byte> memory;
  std::uint64_t slot_bytes = 0;
  std::span<std::byte> near = {};  // The part that should be near the device, if any.
  bool shared = false;             // Other devices copy from the slots too, in the same thread.
};

class backend {
 public:
  virtual ~backend() = default;

  virtual layout_rules rules() const noexcept = 0;

  // Keeps up to `bytes_max` of freed arenas in a free list. Must be called before the first load;
  // without this call no memory is kept.
  virtual void keep(std::uint64_t bytes_max) = 0;

  // Returns a fault if `bytes` could not be allocated now. It is called before a plan is made,
  // because planning a sparse file of many TiB takes gigabytes itself. Thread-safe.
  virtual result<void> check_room(std::uint64_t bytes) {
    (void)bytes;
    return {};
  }

  // Allocates memory for tensors. The fault says how much is needed and available. Thread-safe.
  virtual result<std::shared_ptr<arena>> allocate(std::uint64_t bytes) = 0;
  // Allocates all memory of one load, or nothing.
  virtual result<std::vector<std::shared_ptr<arena>>> allocate_all(
      std::span<const arena_size> sizes) {
    std::vector<std::shared_ptr<arena>> arenas;
    for (const arena_size& size : sizes) {
      auto memory = allocate(size.bytes);
      if (!memory) return memory.error();
      arenas.push_back(std::move(*memory));
    }
    return arenas;
  }

  // Returns loaded bytes for the host: in place, or copied into `room`, whose size is the number of
  // bytes. Thread-safe.
  virtual result<std::span<const std::byte>> read_back(const arena& from,
                                                       std::uint64_t arena_offset,
                                                       std::span<std::byte> room) {
    return std::span<const std::byte>(from.data() + arena_offset, room.size());
  }

  // Copies device memory of an arena or of the caller to the host. All work on it must be complete.
  // Thread-safe, also without attach().
  virtual result<void> copy_to_host(const std::byte* from, std::span<std::byte> into) {
    std::memcpy(into.data(), from, into.size());
    return {};
  }

  // Pins a slot, whose pages must be present, so that the device can copy from it. If the device
  // refuses, the result says why; copies then work too, but slower. Otherwise the result is empty.
  // Must be called between attach and detach, before the first copy out of the slot, once, or again
  // after a failure. Thread-safe for different slots.
  virtual result<std::string> pin(std::span<std::byte> slot) {
    (void)slot;
    return std::string();
  }

  // Sets the page kind for host memory. Must be called once, before the first allocation.
  virtual void use_pages(huge_pages pages) { (void)pages; }

  // Sets the log for allocations. Must be called once, before the first allocation.
  virtual void log_to(const allocation_log& log) { (void)log; }

  // The engine thread calls these functions in this order: attach, any number of starts, and detach
  // when no copy is in flight.

  // Opens the device. After this, handlers in `loop` may call `done`. The region may be advised,
  // but it has no pages yet and must not be touched.
  virtual result<void> attach(boost::asio::io_context& loop, slot_region slots) = 0;
  // Finds out whether this device can copy out of memory of `other`. Called in the engine thread
  // when both are attached.
  virtual void meet(const backend& peer) noexcept { (void)peer; }
  // Returns true if the device prefers to copy `copy` out of an arena of `peer`, where its bytes
  // have just arrived, instead of out of the slot. `copy` is one of `copies` and moves bytes
  // unchanged.
  virtual bool prefers(const backend& peer, const copy_op& copy,
                       std::size_t copies) const noexcept {
    (void)peer, (void)copy, (void)copies;
    return false;
  }
  // Makes the copies before it returns, in any thread, if the CPU makes them. Otherwise does
  // nothing and returns false, and the caller must use start(). Does not call `done`.
  virtual bool copy_now(const copy_operation& op) noexcept {
    (void)op;
    return false;
  }
  // Must report errors through `done`, because an exception would lose the waiting coroutine.
  virtual void start(copy_operation& op) noexcept = 0;
  virtual void detach() noexcept = 0;
};

}  // namespace ringload::inline v0
