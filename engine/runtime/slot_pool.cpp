// SPDX-License-Identifier: Apache-2.0

#include "runtime/slot_pool.hpp"

#include <sys/uio.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "base/mapping.hpp"

namespace ringload::inline v0::detail {

result<void> slot_pool::open(const loader_options& options, std::uint32_t slots_max,
                             std::uint32_t spare_slots, const allocation_log& log) {
  auto created = slots::make(options.slots + spare_slots, options.slot_bytes, options.huge_pages);
  if (!created) return created.error();
  slots_ = std::move(*created);
  count_ = options.slots;
  slots_max_ = std::max(count_, slots_max);
  pages_ = options.huge_pages;
  entry_count_ = slots_max_ + spare_slots;
  entries_ = std::make_unique<entry[]>(entry_count_);
  log_ = log;
  page_kind_reason_ = slots_.not_reserved_reason();
  return {};
}

result<void> slot_pool::grow() {
  if (slots_max_ == count_ || !grown_.memory().empty()) return {};
  auto created = slots::make(slots_max_ - count_, slots_.slot_bytes(), pages_);
  if (!created) return created.error();
  grown_ = std::move(*created);
  return {};
}

result<void> slot_pool::make_ready(std::uint32_t slot, const device_set& devices) {
  entry& target = entries_[slot];
  const std::lock_guard preparing_lock(target.preparing);
  if (target.ready.load()) return {};
  auto not_reserved_reason = slots_with(slot).populate(index_in(slot));
  if (!not_reserved_reason) return not_reserved_reason.error();
  note_pages(slot, std::move(*not_reserved_reason));
  auto not_pinned = devices.pin(memory(slot));
  if (!not_pinned) return not_pinned.error();
  {
    const std::lock_guard lock(mutex_);
    pinned_bytes_ += slots_.slot_bytes();
    if (!not_pinned->empty()) pinning_reason_ = std::move(*not_pinned);
  }
  target.logged =
      logged_allocation(log_, {"pin", "unpin"}, memory(slot).data(), slots_.slot_bytes());
  target.ready.store(true);
  return {};
}

void slot_pool::open_registration(ring* io_ring) {
  if (!io_ring) return refused("io_uring is not used");
  const auto failed = io_ring->open_buffers(entry_count_);
  if (failed) return refused("io_uring_register_buffers_sparse: " + failed.message());
  ring_ = io_ring;
}

void slot_pool::register_with_ring(std::uint32_t slot) {
  entry& target = entries_[slot];
  if (!ring_ || target.registered != registration::untried) return;
  const std::span<std::byte> buffer = memory(slot);
  const auto failed = ring_->register_buffer(slot, {buffer.data(), buffer.size()});
  target.registered = failed ? registration::refused : registration::done;
  if (failed) {
    const bool locked = failed.value() == ENOMEM;
    return refused(failed.message() + (locked ? ": RLIMIT_MEMLOCK is too low" : ""));
  }
  const std::lock_guard lock(mutex_);
  any_registered_ = true;
}

int slot_pool::registered_buffer(std::uint32_t slot) const noexcept {
  return entries_[slot].registered == registration::done ? static_cast<int>(slot) : -1;
}

void slot_pool::close() noexcept {
  ring_ = nullptr;
  // entries_ is null if its allocation failed. In this case, no slot was made ready.
  for (std::uint32_t i = 0; entries_ && i < entry_count_; ++i) entries_[i].logged.release();
  slots_ = {};
  grown_ = {};
}

void slot_pool::fill_stats(load_stats& stats) const {
  const std::lock_guard lock(mutex_);
  stats.pinned_bytes_peak = pinned_bytes_;
  stats.pinning_reason = pinning_reason_;
  stats.page_kind = page_kind_;
  stats.page_kind_reason = page_kind_reason_;
  stats.slots_registered = any_registered_ && refusal_.empty();
  stats.registration_reason = refusal_;
  if (refusal_.empty() && !any_registered_) stats.registration_reason = "no slot was needed";
}

void slot_pool::note_pages(std::uint32_t slot, std::string not_reserved_reason) {
  {
    const std::lock_guard lock(mutex_);
    if (!not_reserved_reason.empty()) page_kind_reason_ = std::move(not_reserved_reason);
    if (page_kind_noted_) return;
    page_kind_noted_ = true;
  }
  // kind_of() may be slow, so it is called for the first slot only. The lock is not held, so the
  // preparation of other slots does not wait.
  const page_kind found = kind_of(memory(slot));
  const std::lock_guard lock(mutex_);
  page_kind_ = name(found);
}

void slot_pool::refused(std::string reason) {
  const std::lock_guard lock(mutex_);
  refusal_ = std::move(reason);
}

}  // namespace ringload::inline v0::detail
