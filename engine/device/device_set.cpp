// SPDX-License-Identifier: Apache-2.0

#include "device/device_set.hpp"

#include <algorithm>

namespace ringload::inline v0 {

namespace {

// host() and shared_host() compare equal, but their makers differ.
bool same_backend(const device& a, const device& b) noexcept {
  return a == b && a.maker() == b.maker();
}

// Divides the slots equally among `devices` devices. Returns the share of device number `nth`,
// which should be on the NUMA node of this device.
std::span<std::byte> slots_near(const slot_region& region, std::size_t nth, std::size_t devices) {
  const std::size_t slots = region.memory.size() / region.slot_bytes;
  const std::size_t begin = slots * nth / devices;
  const std::size_t end = slots * (nth + 1) / devices;
  return region.memory.subspan(begin * region.slot_bytes, (end - begin) * region.slot_bytes);
}

}  // namespace

std::string device_set::description() const {
  std::string text = listed_.size() == 1 ? "the loader's device is " : "the loader's devices are ";
  for (std::size_t i = 0; i < listed_.size(); ++i) {
    text += (i > 0 ? ", " : "") + listed_[i].name();
  }
  return text;
}

std::uint32_t device_set::position_of(const device& target) const noexcept {
  const auto found = std::ranges::find(listed_, target);
  return found == listed_.end() ? 0 : static_cast<std::uint32_t>(found - listed_.begin());
}

void device_set::make(const loader_options& options, const allocation_log& log) {
  peer_copies_ = options.peer_copies;
  std::vector<device> unique_devices;
  const auto add = [&](const device& new_device) {
    unique_devices.push_back(new_device);
    backends_.push_back(new_device.maker()(new_device.index()));
    backends_.back()->use_pages(options.huge_pages);
    backends_.back()->log_to(log);
    if (host_ == nullptr && new_device.kind() == device_kind::host) host_ = backends_.back().get();
  };
  for (const device& listed_device : listed_) {
    auto found = std::ranges::find_if(
        unique_devices, [&](const device& known) { return same_backend(known, listed_device); });
    const auto index = static_cast<std::size_t>(found - unique_devices.begin());
    if (index == unique_devices.size()) {
      add(listed_device);
      if (options.cached_bytes > 0) backends_.back()->keep(options.cached_bytes);
    }
    by_position_.push_back(backends_[index].get());
  }
  if (host_ == nullptr) add(host());
}

result<void> device_set::attach(boost::asio::io_context& loop, slot_region slots) {
  // Divides the slots among the devices other than the host, for slot_region::near.
  const auto is_far = [](const auto& candidate) { return !candidate->rules().unstaged; };
  const auto far = static_cast<std::size_t>(std::ranges::count_if(backends_, is_far));
  std::size_t nth = 0;
  for (const auto& target : backends_) {
    slot_region region = slots;
    region.shared = far > 1;
    if (far > 0) region.near = slots_near(slots, std::min(nth, far - 1), far);
    if (is_far(target)) ++nth;
    if (auto attached = target->attach(loop, region); !attached) {
      detach();
      return attached.error();
    }
    ++attached_;
  }
  if (!peer_copies_) return {};
  for (const auto& target : backends_) {
    for (const auto& peer : backends_) {
      if (target != peer) target->meet(*peer);
    }
  }
  return {};
}

void device_set::detach() noexcept {
  // Detaches in reverse order: the GPU that was attached first has pinned the slots, and must unpin
  // them last.
  while (attached_ > 0) backends_[--attached_]->detach();
}

void device_set::clear() noexcept {
  by_position_.clear();
  host_ = nullptr;
  while (!backends_.empty()) backends_.pop_back();
}

backend* device_set::find(const device& target) const noexcept {
  const auto found = std::ranges::find(listed_, target);
  if (found != listed_.end())
    return by_position_[static_cast<std::size_t>(found - listed_.begin())];
  return target == host() ? host_ : nullptr;
}

bool device_set::all_staged() const noexcept {
  return std::ranges::none_of(by_position_,
                              [](const backend* candidate) { return candidate->rules().unstaged; });
}

result<std::string> device_set::pin(std::span<std::byte> slot) const {
  std::string first_refusal;
  for (const auto& target : backends_) {
    auto refusal = target->pin(slot);
    if (!refusal) return refusal.error();
    if (first_refusal.empty()) first_refusal = std::move(*refusal);
  }
  return first_refusal;
}

}  // namespace ringload::inline v0
