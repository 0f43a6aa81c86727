// SPDX-License-Identifier: Apache-2.0
#pragma once

// Finds a tensor of a catalog by its name.

#include <cstdint>
#include <mutex>
#include <optional>
#include <ringload/catalog.hpp>
#include <string_view>
#include <vector>

namespace ringload::inline v0 {

// A hash table of indices with open addressing. The first look-up fills the table, because most
// catalogs are never searched. Any thread.
class name_index {
 public:
  // The catalog must outlive the index and must not change.
  explicit name_index(const catalog& indexed);

  // The tensor's index in catalog::tensors. If several tensors have the name, the first one.
  std::optional<std::uint32_t> find(std::string_view name) const noexcept;

 private:
  void fill() const noexcept;
  std::size_t first_place(std::string_view name) const noexcept;

  const std::vector<tensor_info>& tensors_;
  mutable std::once_flag filled_;
  mutable std::vector<std::uint32_t> table_;  // At least half of the table is empty.
};

}  // namespace ringload::inline v0
