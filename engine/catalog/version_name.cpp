// SPDX-License-Identifier: Apache-2.0

#include "catalog/version_name.hpp"

#include <charconv>
#include <system_error>

namespace ringload::inline v0 {

std::optional<std::uint64_t> version_named(std::string_view name, std::string_view ending) {
  if (!name.ends_with(ending)) return std::nullopt;
  std::string_view text = name.substr(0, name.size() - ending.size());
  if (text.size() < 2 || text.front() != 'v') return std::nullopt;
  text.remove_prefix(1);
  if (text.front() == '0' && text.size() > 1) return std::nullopt;
  std::uint64_t number = 0;
  const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (failure != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return number;
}

}  // namespace ringload::inline v0
