// SPDX-License-Identifier: Apache-2.0

#include "request/destinations.hpp"

#include <algorithm>

namespace ringload::inline v0::detail {

void destinations::add(std::byte* memory, backend* copier, bool is_arena) {
  memory_.push_back(memory);
  copiers_.push_back(copier);
  is_arena_.push_back(is_arena);
  if (only_ == nullptr) only_ = copier;
  has_several_ = has_several_ || (copier != nullptr && copier != only_);
}

// Returns the address of the bytes of `copy` in the memory of another device, or null. `before`
// contains the shares of other devices. A device qualifies if the device receives the same bytes,
// and if the backend of the destination prefers to copy from the device. The function returns the
// bytes on the first device that qualifies. `copies` is the number of copies in the share of the
// backend of the destination.
const std::byte* destinations::bytes_on_peer(std::span<const share> before, const copy_op& copy,
                                             std::size_t copies) const {
  if (copy.cast.needed() || copy.map != no_index) return nullptr;
  for (const share& earlier : before) {
    const auto twin = std::ranges::find_if(earlier.copies, [&](const copy_op& c) {
      return c.slot_offset == copy.slot_offset && c.bytes == copy.bytes && !c.cast.needed() &&
             c.map == no_index && is_arena_[c.destination];
    });
    // prefers() must be called last, because the first call for two devices enables access between
    // the devices.
    if (twin == earlier.copies.end()) continue;
    if (!copiers_[copy.destination]->prefers(*earlier.copier, copy, copies)) continue;
    return memory_[twin->destination] + twin->destination_offset;
  }
  return nullptr;
}

std::vector<destinations::share> destinations::split_host_copies(
    std::span<const copy_op> copies, std::vector<copy_op>& order) const {
  std::vector<share> out;
  order.assign(copies.begin(), copies.end());
  for (std::span<copy_op> remaining = order; !remaining.empty();) {
    backend* const by = copiers_[remaining.front().destination];
    const auto later_copies = std::ranges::stable_partition(
        remaining, [&](const copy_op& c) { return copiers_[c.destination] == by; });
    out.push_back({by, remaining.first(remaining.size() - later_copies.size())});
    remaining = remaining.last(later_copies.size());
  }
  return out;
}

std::vector<destinations::share> destinations::split_copies_by_backend(
    std::span<const copy_op> copies, std::vector<copy_op>& order) const {
  std::vector<share> out;
  std::vector<share> peer_shares;
  for (const share& whole : split_host_copies(copies, order)) {
    // The span in a share is const. The same elements can be changed through `order`.
    const auto begin = static_cast<std::size_t>(whole.copies.data() - order.data());
    std::span<copy_op> own_copies = std::span(order).subspan(begin, whole.copies.size());
    for (std::size_t i = 0, count = own_copies.size(); i < own_copies.size();) {
      const std::byte* const peer_bytes = bytes_on_peer(out, own_copies[i], count);
      if (peer_bytes == nullptr) {
        ++i;
        continue;
      }
      std::swap(own_copies[i], own_copies.back());
      own_copies.back().slot_offset = 0;
      peer_shares.push_back({whole.copier, own_copies.last(1), peer_bytes});
      own_copies = own_copies.first(own_copies.size() - 1);
    }
    if (!own_copies.empty()) out.push_back({whole.copier, own_copies});
  }
  out.insert(out.end(), peer_shares.begin(), peer_shares.end());
  return out;
}

}  // namespace ringload::inline v0::detail
