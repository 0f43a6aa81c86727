// SPDX-License-Identifier: Apache-2.0

#include "catalog/name_index.hpp"

#include <bit>
#include <functional>

namespace ringload::inline v0 {

namespace {

constexpr std::uint32_t no_tensor = ~std::uint32_t{0};

}  // namespace

name_index::name_index(const catalog& indexed)
    : tensors_(indexed.tensors), table_(std::bit_ceil(indexed.tensors.size() * 2 + 1), no_tensor) {}

std::size_t name_index::first_position(std::string_view name) const noexcept {
  return std::hash<std::string_view>()(name) & (table_.size() - 1);
}

void name_index::fill() const noexcept {
  for (std::uint32_t t = 0; t < tensors_.size(); ++t) {
    std::size_t position = first_position(tensors_[t].name);
    while (table_[position] != no_tensor) position = (position + 1) & (table_.size() - 1);
    table_[position] = t;
  }
}

std::optional<std::uint32_t> name_index::find(std::string_view name) const noexcept {
  std::call_once(filled_, [this] { fill(); });
  for (std::size_t position = first_position(name); table_[position] != no_tensor;
       position = (position + 1) & (table_.size() - 1)) {
    if (tensors_[table_[position]].name == name) return table_[position];
  }
  return std::nullopt;
}

}  // namespace ringload::inline v0
