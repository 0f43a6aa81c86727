// SPDX-License-Identifier: Apache-2.0
#pragma once

// The slots of a loader. A slot is populated, pinned for the device and registered with the ring at
// its first use. Before that, the slot has an address but no memory.

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
  // Reserves the addresses. Must be called once, before all other functions.
  result<void> open(const loader_options& within, const allocation_log& log);

  slot_region region() const noexcept { return {slots_.whole(), slots_.slot_bytes()}; }
  std::span<std::byte> memory(std::uint32_t slot) const noexcept { return slots_.at(slot); }

  // ---- Any thread ----

  bool ready(std::uint32_t slot) const noexcept { return entries_[slot].ready.load(); }

  // Populates and pins a slot, unless the slot is ready. May be called again after a failure.
  // Blocks while another thread prepares the same slot.
  result<void> make_ready(std::uint32_t slot, const device_set& devices);

  void fill_stats(load_stats& stats) const;

  // ---- In the thread of the ring only ----

  // Creates the ring's empty table of registered buffers. Null: there is no ring.
  void open_registration(ring* io_ring);
  // Registers a ready slot, unless this was tried before. A failure is only reported in the stats.
  void register_with_ring(std::uint32_t slot);
  // Returns the index of the slot's registered buffer, or -1.
  int registered_buffer(std::uint32_t slot) const noexcept;

  // Frees the memory. No slot may be in use.
  void close() noexcept;

 private:
  enum class registration : std::uint8_t { untried, done, refused };

  struct entry {
    std::mutex preparing;
    std::atomic<bool> ready = false;
    logged_allocation logged;                         // Set once, before `ready`.
    registration registered = registration::untried;  // Used by the ring's thread only.
  };

  void note_pages(std::uint32_t slot, std::string not_reserved);
  void refused(std::string reason);

  // Set by open() and never changed.
  slots slots_;
  std::uint32_t count_ = 0;
  std::unique_ptr<entry[]> entries_;
  allocation_log log_;

  ring* ring_ = nullptr;  // Null: slots are not registered. Used by the ring's thread only.

  mutable std::mutex mutex_;
  // Guarded by the mutex.
  std::uint64_t pinned_bytes_ = 0;
  bool any_registered_ = false;
  std::string refusal_;  // Last refusal of the ring.
  std::string pinning_reason_;
  bool page_kind_noted_ = false;
  std::string page_kind_;
  std::string page_kind_reason_;
};

}  // namespace ringload::inline v0::detail
