// SPDX-License-Identifier: Apache-2.0
#include "device/device_set.hpp"

#include <algorithm>

namespace ringload::inline v0 {

namespace {

// Memory that others can map is of the host as well, and made by another.
bool same_backend(const device& a, const device& b) noexcept {
  return a == b && a.maker() == b.maker();
}

// The part of the slots that is to lie near the nth of so many devices.
std::span<std::byte> share_of(const slot_region& all, std::size_t nth, std::size_t devices) {
  const std::size_t slots = all.memory.size() / all.slot_bytes;
  const std::size_t begin = slots * nth / devices;
  const std::size_t end = slots * (nth + 1) / devices;
  return all.memory.subspan(begin * all.slot_bytes, (end - begin) * all.slot_bytes);
}

}  // namespace

std::string device_set::said() const {
  std::string text = listed_.size() == 1 ? "the loader's device is " : "the loader's devices are ";
  for (std::size_t i = 0; i < listed_.size(); ++i) {
    text += (i > 0 ? ", " : "") + listed_[i].name();
  }
  return text;
}

std::uint32_t device_set::position_of(const device& one) const noexcept {
  const auto at = std::ranges::find(listed_, one);
  return at == listed_.end() ? 0 : static_cast<std::uint32_t>(at - listed_.begin());
}

void device_set::make(const limits& within, const allocation_log& log) {
  std::vector<device> made;
  const auto add = [&](const device& one) {
    made.push_back(one);
    backends_.push_back(one.maker()(one.index()));
    backends_.back()->use_pages(within.huge_pages);
    backends_.back()->log_to(log);
    if (host_ == nullptr && one.kind() == device_kind::host) host_ = backends_.back().get();
  };
  for (const device& each : listed_) {
    auto at = std::ranges::find_if(made, [&](const device& m) { return same_backend(m, each); });
    const auto index = static_cast<std::size_t>(at - made.begin());
    if (index == made.size()) {
      add(each);
      if (within.kept_bytes > 0) backends_.back()->keep(within.kept_bytes);
    }
    at_.push_back(backends_[index].get());
  }
  if (host_ == nullptr) add(host());
}

result<void> device_set::attach(boost::asio::io_context& loop, slot_region slots) {
  // Slots are brought near to devices, and the host is everywhere.
  const auto is_far = [](const auto& one) { return !one->rules().straight; };
  const auto far = static_cast<std::size_t>(std::ranges::count_if(backends_, is_far));
  std::size_t nth = 0;
  for (const auto& each : backends_) {
    slot_region mine = slots;
    mine.shared = far > 1;
    if (far > 0) mine.near = share_of(slots, std::min(nth, far - 1), far);
    if (is_far(each)) ++nth;
    if (auto there = each->attach(loop, mine); !there) {
      detach();
      return there.error();
    }
    ++attached_;
  }
  for (const auto& each : backends_) {
    for (const auto& other : backends_) {
      if (each != other) each->meet(*other);
    }
  }
  return {};
}

void device_set::detach() noexcept {
  // The first to pin a slot is the last to let go of it.
  while (attached_ > 0) backends_[--attached_]->detach();
}

void device_set::clear() noexcept {
  at_.clear();
  host_ = nullptr;
  while (!backends_.empty()) backends_.pop_back();
}

backend* device_set::of(const device& on) const noexcept {
  const auto at = std::ranges::find(listed_, on);
  if (at != listed_.end()) return at_[static_cast<std::size_t>(at - listed_.begin())];
  return on == host() ? host_ : nullptr;
}

bool device_set::all_staged() const noexcept {
  return std::ranges::none_of(at_, [](const backend* one) { return one->rules().straight; });
}

result<std::string> device_set::pin(std::span<std::byte> slot) const {
  std::string refused;
  for (const auto& each : backends_) {
    auto why = each->pin(slot);
    if (!why) return why.error();
    if (refused.empty()) refused = std::move(*why);
  }
  return refused;
}

}  // namespace ringload::inline v0
