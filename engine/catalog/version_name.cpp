// SPDX-License-Identifier: Apache-2.0

#include "catalog/version_name.hpp"

#include "base/parse_number.hpp"

namespace ringload::inline v0 {

std::optional<std::uint64_t> version_named(std::string_view name, std::string_view ending) {
  if (!name.ends_with(ending)) return std::nullopt;
  std::string_view text = name.substr(0, name.size() - ending.size());
  if (text.size() < 2 || text.front() != 'v') return std::nullopt;
  text.remove_prefix(1);
  if (text.front() == '0' && text.size() > 1) return std::nullopt;
  return parse_number<std::uint64_t>(text);
}

std::optional<std::uint64_t> weight_version_named(std::string_view name) {
  constexpr std::string_view start = "weight_v";
  constexpr std::size_t digits_min = 6;
  if (!name.starts_with(start)) return std::nullopt;
  name.remove_prefix(start.size());
  if (name.size() < digits_min || (name.size() > digits_min && name.front() == '0')) {
    return std::nullopt;
  }
  return parse_number<std::uint64_t>(name);
}

}  // namespace ringload::inline v0
