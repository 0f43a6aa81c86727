// SPDX-License-Identifier: Apache-2.0
#pragma once

// The interface of a device, such as the host or a GPU. A device allocates memory for tensors, and
// copies bytes into this memory from slots. Slots are the I/O buffers of a loader.

#include <sched.h>

#include <algorithm>
#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/system/error_code.hpp>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <ringload/allocation_log.hpp>
#include <ringload/options.hpp>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/fault.hpp"
#include "base/io_unit.hpp"
#include "base/mapping.hpp"
#include "base/work_interval.hpp"
#include "device/direct_storage.hpp"
#include "device/element_change.hpp"
#include "device/row_copy.hpp"
#include "plan/placement_rules.hpp"
#include "plan/plan.hpp"

namespace ringload::inline v0 {

// Memory for the tensors of one load. The destructor may run in any thread.
class arena {
 public:
  virtual ~arena() = default;

  // Returns the address of the memory on the device, with the requested alignment.
  virtual std::byte* data() const noexcept = 0;

  // Returns true if the memory was reused from an earlier load.
  virtual bool was_kept() const noexcept = 0;

  // Returns true if all pages of the memory are present. Otherwise the caller must make the pages
  // of a range present before a read writes to the range.
  virtual bool populated() const noexcept = 0;

  // Returns true if a write to the memory would be an access violation.
  virtual bool read_only() const noexcept { return false; }

  // If data() is the mapping of a memory file, returns the descriptor of the file, which is valid
  // while the arena exists. Otherwise returns -1.
  virtual int descriptor() const noexcept { return -1; }

  // Returns the mapping of the arena if a device can register the mapping. Otherwise returns null.
  virtual mapping* host_mapping() noexcept { return nullptr; }
};

struct arena_size {
  std::uint64_t bytes = 0;
  std::uint64_t alignment = block_bytes;  // A power of two, at most block_bytes.
};

// The copies of one slot to their destinations. Until `done` is called, the caller must not move
// this object or change the slot.
struct copy_operation {
  const std::byte* slot = nullptr;
  bool peer = false;  // True if `slot` is memory of a peer, a device that was passed to meet().
  // True if `slot` is a slot of open_storage(), in the memory of this device.
  bool on_device = false;
  std::span<const copy_op> copies;
  std::span<const strided_map> maps = {};         // The maps of the plan.
  std::span<std::byte* const> destinations = {};  // Indexed by copy_op::destination.
  boost::asio::any_io_executor threads;           // Runs work that would block the engine thread.
  // Records the time of the work in `threads`. Null if the load is not traced.
  work_interval* times = nullptr;
  // Called once in the engine thread, but never before backend::start() has returned.
  void (*done)(copy_operation& self, boost::system::error_code failed) = nullptr;

  std::byte* destination(const copy_op& c) const noexcept {
    return destinations[c.destination] + c.destination_offset;
  }

  std::uint64_t bytes() const noexcept {
    std::uint64_t sum = 0;
    for (const copy_op& c : copies) sum += c.bytes;
    return sum;
  }
  // Returns true if a copy converts or reorders bytes.
  bool converts() const noexcept {
    return std::any_of(copies.begin(), copies.end(),
                       [](const copy_op& c) { return c.cast.needed() || c.map != no_index; });
  }
};

// Copies bytes that are not in a slot, such as decoded bytes, to one device. Only one thread at a
// time may use the object. The functions may block that thread.
class uploader {
 public:
  virtual ~uploader() = default;

  // Starts the copies of `op`. `op.slot` may be any host memory. The caller may change this memory
  // after start() returns. Never calls `op.done`. The caller must call finish() even after a
  // failure.
  virtual boost::system::error_code start(const copy_operation& op) = 0;

  // Returns when all started copies have ended.
  virtual boost::system::error_code finish() = 0;
};

// The address range of all slots. Slots are contiguous. The pages of a slot must be populated
// before pin() is called for the slot.
struct slot_region {
  std::span<std::byte> memory;
  std::uint64_t slot_bytes = 0;
  std::span<std::byte> near = {};  // The part of `memory` to place on the device's NUMA node.
  // True if several GPUs copy from the slots. The engine thread starts the copies of all GPUs.
  bool shared = false;
  // Owns the memory. If a device unpins the slots after detach(), the device must keep a copy of
  // this pointer until then.
  std::shared_ptr<const void> owner = {};
};

class backend {
 public:
  virtual ~backend() = default;

  virtual placement_rules rules() const noexcept = 0;

  // Keeps up to `bytes_max` bytes of freed arenas for later loads, in a free list. Must be called
  // before the first load. Without this call, no memory is kept.
  virtual void keep(std::uint64_t bytes_max) = 0;

  // Returns a fault if `bytes` bytes cannot be allocated now. A load calls this function before it
  // makes a plan, because the plan of a sparse file of many TiB needs gigabytes of memory.
  // Thread-safe.
  virtual result<void> check_room(std::uint64_t bytes) {
    (void)bytes;
    return {};
  }

  // Allocates memory for tensors. If too little memory is available, the fault contains the needed
  // and the available number of bytes. Thread-safe.
  virtual result<std::shared_ptr<arena>> allocate(std::uint64_t bytes) = 0;
  // Allocates all memory of one load. If one allocation fails, frees the other arenas.
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

  // Makes a range of the arena readable for the host. The range begins at `arena_offset` and has
  // `buffer.size()` bytes. If the arena is in host memory, returns a part of the arena. Otherwise
  // copies the bytes to `buffer` and returns `buffer`. Thread-safe.
  virtual result<std::span<const std::byte>> read_back(const arena& source,
                                                       std::uint64_t arena_offset,
                                                       std::span<std::byte> buffer) {
    return std::span<const std::byte>(source.data() + arena_offset, buffer.size());
  }

  // Copies device memory to the host. The memory may belong to an arena or to the caller. All work
  // on the memory must be complete. Thread-safe. May be called before attach().
  virtual result<void> copy_to_host(const std::byte* from, std::span<std::byte> into) {
    std::memcpy(into.data(), from, into.size());
    return {};
  }

  // Makes copies within the memory of this device, and returns when all copies are complete. All
  // other work on this memory must be complete. May be called before attach(), but only by one
  // thread at a time.
  virtual result<void> copy_rows(std::span<const row_copy> copies) {
    copy_rows_on_host(copies);
    return {};
  }

  // Changes elements in the memory of this device. Returns false if the device cannot do that, or
  // has no memory for the values, and then changes nothing. If a change in place (`before` is null)
  // fails, the memory has its old elements, unless the code is `errc::not_restored`. All other work
  // on the memory must be complete. Must be called between attach() and detach(). Thread-safe.
  virtual result<bool> change_elements(const element_change& change) {
    (void)change;
    return false;
  }
  // Returns the CRC-32C of memory of this device, or an empty optional if the device cannot compute
  // it. The same rules as for change_elements() apply.
  virtual result<std::optional<std::uint32_t>> crc32c_of(std::span<const std::byte> bytes) {
    (void)bytes;
    return std::optional<std::uint32_t>();
  }

  // Pins a slot so that the device can copy from the slot. The pages of the slot must be present.
  // Returns an empty string on success. If the device cannot pin the slot, returns the reason.
  // Copies from a slot that is not pinned are slower. Must be called between attach() and detach(),
  // and before the first copy out of the slot. The caller must not pin a pinned slot again.
  // Thread-safe for different slots.
  virtual result<std::string> pin(std::span<std::byte> slot) {
    (void)slot;
    return std::string();
  }

  // Sets the page kind of host memory. Must be called at most once, before the first allocation.
  virtual void use_pages(huge_pages pages) { (void)pages; }

  // Sets the log for allocations. Must be called at most once, before the first allocation.
  virtual void log_to(const allocation_log& log) { (void)log; }

  // The engine thread calls attach(), then start() for each copy, then detach() after all copies.

  // Opens the device. Afterwards, handlers in `loop` may call `done`. The slots have no pages yet.
  // The device may set the memory policy of the slots, but must not access the slots.
  virtual result<void> attach(boost::asio::io_context& loop, slot_region slots) = 0;
  // Detects whether this device can copy from the memory of `peer`. Called in the engine thread
  // after both devices are attached.
  virtual void meet(const backend& peer) noexcept { (void)peer; }
  // Returns true if the device should copy the bytes of `copy` from the memory of `peer` instead of
  // from the slot. `peer` has just received the same bytes. `copy` must not convert or reorder
  // bytes. `copies` is the number of copies that this device makes from the slot.
  virtual bool prefers(const backend& peer, const copy_op& copy,
                       std::size_t copies) const noexcept {
    (void)peer, (void)copy, (void)copies;
    return false;
  }
  // If the copies of this device run on the CPU, makes all copies and returns true. Otherwise
  // returns false, and the caller must use start(). Does not call `done`. Thread-safe.
  virtual bool copy_now(const copy_operation& op) noexcept {
    (void)op;
    return false;
  }
  // Returns an uploader for the memory of this device. Must be called only if copy_now() returns
  // false. Before detach(), the caller must call finish() of the uploader, then return_uploader().
  // Thread-safe between attach() and detach().
  virtual result<std::unique_ptr<uploader>> take_uploader() {
    return fault{errc::device_unavailable, {}};
  }
  virtual void return_uploader(std::unique_ptr<uploader> used) noexcept { used.reset(); }
  // Returns the processors that are near the memory of the slots, or an empty optional if all
  // processors are equally near. Called in the engine thread after attach().
  virtual std::optional<cpu_set_t> near_processors() { return std::nullopt; }
  // Allocates slots in the memory of the device. Files are read directly into these slots, without
  // a copy in host memory. Called in the engine thread after attach(). The returned object must be
  // destroyed before detach(). If the device does not support these reads, returns a fault with the
  // reason.
  virtual result<std::unique_ptr<direct_storage>> open_storage(std::uint32_t slots,
                                                               std::uint64_t slot_bytes) {
    (void)slots, (void)slot_bytes;
    return fault{errc::device_unavailable, "GPUDirect Storage", "the loader's device is not a GPU"};
  }
  // Starts the copies. Reports every error through `done`.
  virtual void start(copy_operation& op) noexcept = 0;
  virtual void detach() noexcept = 0;
};

}  // namespace ringload::inline v0
