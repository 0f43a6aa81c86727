// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <mutex>
#include <optional>
#include <ringload/catalog.hpp>
#include <string_view>
#include <vector>

namespace ringload::inline v0 {

// Finds a tensor of a catalog by its name, in a hash table with open addressing. The first lookup
// fills the table. Thread-safe.
class name_index {
 public:
  // The catalog must outlive the index and must not change.
  explicit name_index(const catalog& indexed);

  // Returns the tensor's index in catalog::tensors. If several tensors have the name, returns the
  // index of the first tensor. Returns an empty optional if no tensor has the name.
  std::optional<std::uint32_t> find(std::string_view name) const noexcept;

 private:
  void fill() const noexcept;
  std::size_t first_position(std::string_view name) const noexcept;

  const std::vector<tensor_info>& tensors_;
  mutable std::once_flag filled_;
  mutable std::vector<std::uint32_t> table_;  // At least half of the entries are empty.
};

}  // namespace ringload::inline v0
