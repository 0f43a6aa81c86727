// SPDX-License-Identifier: Apache-2.0
#pragma once

// What the pipeline needs of a device: memory for the tensors, slots that it can copy from, copies.

#include <algorithm>
#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/system/error_code.hpp>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <ringload/limits.hpp>
#include <span>

#include "core/fault.hpp"
#include "plan/make_plan.hpp"
#include "plan/plan.hpp"

namespace ringload::inline v0 {

// The memory that the tensors of one load lie in, from beginning to end. Given back when the last
// owner lets go of it, in whatever thread that is.
class arena {
 public:
  virtual ~arena() = default;

  // In the device's own addresses; aligned as layout_rules asks for tensors. Where reads land
  // straight, it is aligned to a block, and memory of the host.
  virtual std::byte* data() const noexcept = 0;

  // Whether a load that is over had the memory before.
  virtual bool was_kept() const noexcept = 0;

  // Whether all its pages are there. If not, who reads into it populates it first.
  virtual bool populated() const noexcept = 0;
};

// One slot's copies. It stays where it is, and the slot untouched, until `done` is called.
struct copy_operation {
  const std::byte* slot = nullptr;
  std::span<const copy_op> copies;
  arena* into = nullptr;
  boost::asio::any_io_executor threads;  // For what would stall the engine thread.
  // In the engine thread, once, and never from inside backend::start.
  void (*done)(copy_operation& self, boost::system::error_code failed) = nullptr;

  std::uint64_t bytes() const noexcept {
    std::uint64_t sum = 0;
    for (const copy_op& c : copies) sum += c.bytes;
    return sum;
  }
  bool converts() const noexcept {
    return std::any_of(copies.begin(), copies.end(),
                       [](const copy_op& c) { return c.as.needed(); });
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

  // How much memory that tensors no longer use is kept for the next loads. Called once, before the
  // first of them; without it nothing is.
  virtual void keep(std::uint64_t bytes_max) = 0;

  // Whether there is room for so many bytes at present: asked before a plan is made for them, which
  // for a sparse file of many TiB would itself take gigabytes. Any thread.
  virtual result<void> check_room(std::uint64_t bytes) {
    (void)bytes;
    return {};
  }

  // Takes memory for one load, or says how much there is and how much is needed. Any thread.
  virtual result<std::shared_ptr<arena>> allocate(std::uint64_t bytes) = 0;

  // Bytes that have landed, where the host can read them: in place, as here, or copied into `room`,
  // which is so many bytes long. Any thread.
  virtual result<std::span<const std::byte>> read_back(const arena& from,
                                                       std::uint64_t arena_offset,
                                                       std::span<std::byte> room) {
    return std::span<const std::byte>(from.data() + arena_offset, room.size());
  }

  // Makes a slot, whose pages are present, memory that this device can copy from. Between attach
  // and detach, before the first copy out of the slot; once, or again after it failed. Any thread,
  // and several at a time for different slots.
  virtual result<void> pin(std::span<std::byte> slot) {
    (void)slot;
    return {};
  }

  // How memory of the host is to be mapped, if any is. Called once, before the first allocate.
  virtual void use_pages(huge_pages pages) { (void)pages; }

  // The rest is called in the engine thread, in this order: attach, start as often as needed,
  // detach when no copy is under way.

  // Opens the device. From here on `done` may be called by whatever runs in `loop`. The region may
  // be advised, but has no pages yet and must not be touched.
  virtual result<void> attach(boost::asio::io_context& loop, slot_region slots) = 0;
  // Says in `done` what goes wrong: the coroutine that waits would be lost with an exception.
  virtual void start(copy_operation& op) noexcept = 0;
  virtual void detach() noexcept = 0;
};

}  // namespace ringload::inline v0
