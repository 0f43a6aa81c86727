// SPDX-License-Identifier: Apache-2.0
#include "request/choose_devices.hpp"

#include <algorithm>

#include "base/printable.hpp"

namespace ringload::inline v0 {

namespace {

using detail::place_rule;
using way = place_rule::way;

bool concerns(const place_rule& wish, const tensor_info& t) {
  return wish.placement == way::chosen || matches(wish.glob, t.name);
}

fault no_such_device(const catalog& from, const tensor_info& t, std::uint32_t device,
                     std::uint32_t devices) {
  return {errc::invalid_selection, tensor_place(from, t),
          "it is to go to device " + grouped(device) + ", and the loader has " + grouped(devices) +
              ", counted from 0"};
}

}  // namespace

result<std::vector<device_choice>> choose_devices(const catalog& from,
                                                  const detail::requests& requests,
                                                  const std::function<bool(std::uint32_t)>& wanted,
                                                  std::uint32_t devices,
                                                  const std::string& source) {
  std::vector<device_choice> out(from.tensors.size());
  if (requests.places.empty()) return out;
  std::vector<bool> used(requests.places.size());
  std::vector<std::uint64_t> bytes_on(devices);
  for (std::uint32_t t = 0; t < out.size(); ++t) {
    if (!wanted(t)) continue;
    const tensor_info& info = from.tensors[t];
    const place_rule* decides = nullptr;
    for (std::size_t w = 0; w < used.size(); ++w) {
      if (!concerns(requests.places[w], info)) continue;
      used[w] = true;
      decides = &requests.places[w];
    }
    device_choice& place = out[t];
    if (decides != nullptr) {
      if (decides->placement == way::one) place.device = decides->number;
      if (decides->placement == way::chosen) place.device = decides->device_of(info);
      if (decides->placement == way::spread) {
        const auto least = std::ranges::min_element(bytes_on);
        place.device = static_cast<std::uint32_t>(least - bytes_on.begin());
      }
      if (decides->placement == way::sharded && devices > 1) place.dim = decides->number;
    }
    place.everywhere = place.dim.has_value() || place.device == all_devices;
    if (place.everywhere) place.device = 0;
    if (place.device >= devices) return no_such_device(from, info, place.device, devices);
    // A tensor on every device adds about the same number of bytes to each device.
    if (!place.everywhere) bytes_on[place.device] += info.bytes;
  }
  const auto unused = std::ranges::find(used, false);
  if (unused == used.end() || requests.missing_is_allowed) return out;
  const place_rule& wish = requests.places[static_cast<std::size_t>(unused - used.begin())];
  if (wish.placement == way::chosen) return out;
  return fault{errc::no_such_tensor, source, "no tensor matches '" + printable(wish.glob) + "'"};
}

}  // namespace ringload::inline v0
