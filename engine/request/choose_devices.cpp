// SPDX-License-Identifier: Apache-2.0
#include "request/choose_devices.hpp"

#include <algorithm>

#include "base/printable.hpp"

namespace ringload::inline v0 {

namespace {

using detail::place_rule;
using placement_kind = place_rule::placement_kind;

bool rule_matches(const place_rule& rule, const tensor_info& t) {
  return rule.kind == placement_kind::by_function || matches(rule.glob, t.name);
}

fault no_such_device(const catalog& from, const tensor_info& t, std::uint32_t device,
                     std::uint32_t devices) {
  return {errc::invalid_selection, tensor_place(from, t),
          "device " + grouped(device) + " was requested, expected less than " + grouped(devices)};
}

}  // namespace

result<std::vector<device_choice>> choose_devices(
    const catalog& from, const detail::requests& requests,
    const std::function<bool(std::uint32_t)>& is_chosen, std::uint32_t devices,
    const std::string& source) {
  std::vector<device_choice> out(from.tensors.size());
  if (requests.places.empty()) return out;
  std::vector<bool> used(requests.places.size());
  std::vector<std::uint64_t> bytes_on(devices);
  for (std::uint32_t t = 0; t < out.size(); ++t) {
    if (!is_chosen(t)) continue;
    const tensor_info& info = from.tensors[t];
    const place_rule* matching_rule = nullptr;
    for (std::size_t w = 0; w < used.size(); ++w) {
      if (!rule_matches(requests.places[w], info)) continue;
      used[w] = true;
      matching_rule = &requests.places[w];
    }
    device_choice& place = out[t];
    if (matching_rule != nullptr) {
      if (matching_rule->kind == placement_kind::given_device)
        place.device = matching_rule->device_or_dim;
      if (matching_rule->kind == placement_kind::by_function)
        place.device = matching_rule->device_of(info);
      if (matching_rule->kind == placement_kind::spread) {
        const auto least = std::ranges::min_element(bytes_on);
        place.device = static_cast<std::uint32_t>(least - bytes_on.begin());
      }
      if (matching_rule->kind == placement_kind::sharded && devices > 1)
        place.dim = matching_rule->device_or_dim;
    }
    place.on_all_devices = place.dim.has_value() || place.device == all_devices;
    if (place.on_all_devices) place.device = 0;
    if (place.device >= devices) return no_such_device(from, info, place.device, devices);
    // A tensor on all devices is not counted, because the tensor adds about the same size to each
    // device.
    if (!place.on_all_devices) bytes_on[place.device] += info.bytes;
  }
  if (requests.missing_is_allowed) return out;
  for (std::size_t w = 0; w < used.size(); ++w) {
    const place_rule& rule = requests.places[w];
    if (used[w] || rule.kind == placement_kind::by_function) continue;
    return fault{errc::no_such_tensor, source, "no tensor matches '" + printable(rule.glob) + "'"};
  }
  return out;
}

}  // namespace ringload::inline v0
