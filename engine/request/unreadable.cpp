// SPDX-License-Identifier: Apache-2.0
#include "request/unreadable.hpp"

#include <algorithm>
#include <string>

namespace ringload::inline v0 {

namespace {

// Returns true if `glob` matches the name of the object. Also returns true if `glob` matches
// "name/", so that a glob for the parts of the object ("name/*") selects the object.
bool matches_object(const std::string& glob, const std::string& name) {
  return matches(glob, name) || matches(glob, name + "/");
}

bool is_chosen(const unreadable_info& object, const detail::requests& requests) {
  const auto matches_name = [&](const std::string& glob) {
    return matches_object(glob, object.name);
  };
  if (std::ranges::any_of(requests.excluded_globs, matches_name)) return false;
  if (requests.names.empty() && requests.globs.empty() && requests.predicates.empty()) return true;
  if (std::ranges::any_of(requests.globs, matches_name)) return true;
  tensor_info info;
  info.name = object.name;
  info.file = object.file;
  return std::ranges::any_of(requests.predicates,
                             [&](const auto& predicate) { return predicate(info); });
}

}  // namespace

fault fault_of(const unreadable_info& object) { return {object.code, object.place, object.reason}; }

const unreadable_info* unreadable_named(const catalog& from, std::string_view name) noexcept {
  const auto is_named = [name](const unreadable_info& object) {
    if (!name.starts_with(object.name)) return false;
    return name.size() == object.name.size() || name[object.name.size()] == '/';
  };
  const auto found = std::ranges::find_if(from.unreadable, is_named);
  return found == from.unreadable.end() ? nullptr : &*found;
}

std::optional<fault> unreadable_chosen(const catalog& from, const detail::requests& requests) {
  for (const unreadable_info& object : from.unreadable) {
    if (!object.is_left_out && is_chosen(object, requests)) return fault_of(object);
  }
  return std::nullopt;
}

}  // namespace ringload::inline v0
