// SPDX-License-Identifier: Apache-2.0
#pragma once

// The slots of a loader. Each is populated, pinned for the device and registered with the ring when
// it is first needed; until then it has an address but no memory.

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
  // Reserves the addresses. Called once, before all below.
  result<void> open(const loader_options& within, const allocation_log& log);

  slot_region region() const noexcept { return {slots_.whole(), slots_.slot_bytes()}; }
  std::span<std::byte> at(std::uint32_t slot) const noexcept { return slots_.at(slot); }

  // ---- Any thread ----

  bool ready(std::uint32_t slot) const noexcept { return entries_[slot].ready.load(); }

  // Populates and pins a slot that is not ready yet. May be retried after a failure. Blocks while
  // another thread prepares the same slot.
  result<void> make_ready(std::uint32_t slot, const device_set& devices);

  void fill_stats(load_stats& stats) const;

  // ---- In the thread of the ring only ----

  // Makes the ring's table of registered buffers, empty at first. Null: there is no ring.
  void open_registration(ring* with);
  // Registers a slot that is ready, unless that was tried already. Failure is ignored.
  void register_with_ring(std::uint32_t slot);
  // The index of the registered buffer that a slot is, or -1.
  int registered_buffer(std::uint32_t slot) const noexcept;

  // Frees the memory. No slot may be in use any more.
  void close() noexcept;

 private:
  enum class registration : std::uint8_t { untried, done, refused };

  struct entry {
    std::mutex in_the_making;
    std::atomic<bool> ready = false;
    logged_allocation logged;                        // Set once, before `ready`.
    registration with_ring = registration::untried;  // Touched by the ring's thread only.
  };

  void note_pages(std::uint32_t slot, std::string not_reserved);
  void refused(std::string why);

  // Set by open() and never changed.
  slots slots_;
  std::uint32_t count_ = 0;
  std::unique_ptr<entry[]> entries_;
  allocation_log log_;

  ring* ring_ = nullptr;  // Null: slots are not registered. Touched by the ring's thread only.

  mutable std::mutex mutex_;
  // Guarded by the mutex.
  std::uint64_t pinned_bytes_ = 0;
  bool one_registered_ = false;
  std::string refusal_;  // The ring's last one.
  std::string pinning_reason_;
  bool page_kind_noted_ = false;
  std::string page_kind_;
  std::string page_kind_reason_;
};

}  // namespace ringload::inline v0::detail
