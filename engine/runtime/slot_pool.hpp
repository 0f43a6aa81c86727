// SPDX-License-Identifier: Apache-2.0
#pragma once

// The slots of a loader. A slot is an I/O buffer for reads and writes. A slot occupies address
// space but no memory until the slot is populated (its pages become present). A slot is populated
// and pinned at its first use or shortly before, and registered with io_uring at its first use.

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <ringload/allocation_log.hpp>
#include <ringload/options.hpp>
#include <ringload/stats.hpp>
#include <span>
#include <string>

#include "base/logged_allocation.hpp"
#include "device/device_set.hpp"
#include "io/ring/ring.hpp"
#include "io/slots.hpp"

namespace ringload::inline v0::detail {

class slot_pool {
 public:
  // Reserves address space for the slots 0 to loader_options::slots - 1, and for `spare_slots`
  // spare slots. The first spare slot has the number `slots_max`. The spare slots are for second
  // reads (see second_reads.hpp). The slots between exist only after grow(). Must be called once,
  // before all other functions.
  result<void> open(const loader_options& options, std::uint32_t slots_max,
                    std::uint32_t spare_slots, const allocation_log& log);

  slot_region region() const noexcept {
    return {slots_.memory(), slots_.slot_bytes(), {}, false, slots_.owner()};
  }
  std::span<std::byte> memory(std::uint32_t slot) const noexcept {
    return slots_with(slot).at(index_in(slot));
  }

  // ---- May be called from any thread ----

  bool is_ready(std::uint32_t slot) const noexcept { return entries_[slot].ready.load(); }

  // Populates and pins a slot. Does nothing if the slot is ready. Blocks while another thread
  // prepares the same slot. May be called again after a failure.
  result<void> make_ready(std::uint32_t slot, const device_set& devices);

  void fill_stats(load_stats& stats) const;

  // ---- Only in the engine thread ----

  // Reserves address space for the slots from number loader_options::slots to number `slots_max` -
  // 1. These slots are not attached to a device, so only a loader for the host may use these slots.
  // Does nothing at a second call.
  result<void> grow();

  // `io_ring` is null if io_uring is not used.
  void open_registration(ring* io_ring);
  // Registers a slot that make_ready() has prepared. Does nothing after the first call for the
  // slot. A failure is only reported in the statistics.
  void register_with_ring(std::uint32_t slot);
  // Returns -1 if the slot is not registered.
  int registered_buffer(std::uint32_t slot) const noexcept;

  // Frees the memory of all slots. If a device has not yet unpinned the slots, the device frees the
  // memory later. No slot may be in use.
  void close() noexcept;

 private:
  enum class registration : std::uint8_t { untried, done, refused };

  struct entry {
    std::mutex preparing;
    std::atomic<bool> ready = false;
    // Set once, before `ready` becomes true.
    logged_allocation logged;
    // Used by the engine thread only.
    registration registered = registration::untried;
  };

  void note_pages(std::uint32_t slot, std::string not_reserved_reason);
  void refused(std::string reason);

  bool is_grown(std::uint32_t slot) const noexcept { return slot >= count_ && slot < slots_max_; }
  const slots& slots_with(std::uint32_t slot) const noexcept {
    return is_grown(slot) ? grown_ : slots_;
  }
  std::uint32_t index_in(std::uint32_t slot) const noexcept {
    if (slot < count_) return slot;
    return is_grown(slot) ? slot - count_ : slot - slots_max_ + count_;
  }

  // Set by open(), constant afterwards.
  slots slots_;  // The first `count_` slots, then the spare slots.
  std::uint32_t count_ = 0;
  std::uint32_t slots_max_ = 0;
  std::uint32_t entry_count_ = 0;  // slots_max_ and the spare slots.
  huge_pages pages_ = huge_pages::transparent;
  // Empty before grow(). Another thread uses a slot of `grown_` only after the engine thread has
  // passed the number of the slot to that thread.
  slots grown_;
  std::unique_ptr<entry[]> entries_;
  allocation_log log_;

  // Null if slots are not registered. Used by the engine thread only.
  ring* ring_ = nullptr;

  mutable std::mutex mutex_;
  // Guarded by the mutex.
  std::uint64_t pinned_bytes_ = 0;
  bool any_registered_ = false;
  std::string refusal_;  // Why slots are not registered. Empty if no registration failed.
  std::string pinning_reason_;
  bool page_kind_noted_ = false;
  std::string page_kind_;
  std::string page_kind_reason_;
};

}  // namespace ringload::inline v0::detail
