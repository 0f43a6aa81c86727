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

// A hash table of indices, open addressing. The first look-up fills it: most catalogs are never
// asked. Any thread.
class name_index {
 public:
  // The catalog must live as long, and does not change.
  explicit name_index(const catalog& of);

  // The tensor's index in catalog::tensors; of several of one name, the first.
  std::optional<std::uint32_t> find(std::string_view name) const noexcept;

 private:
  void fill() const noexcept;
  std::size_t first_place(std::string_view name) const noexcept;

  const std::vector<tensor_info>& tensors_;
  mutable std::once_flag filled_;
  mutable std::vector<std::uint32_t> table_;  // At least half of it is empty.
};

}  // namespace ringload::inline v0
