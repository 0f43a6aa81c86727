// SPDX-License-Identifier: Apache-2.0
#pragma once

// A catalog that never changes, with a lookup by name. Thread-safe.

#include <cstdint>
#include <optional>
#include <ringload/catalog.hpp>
#include <string_view>
#include <utility>

#include "catalog/name_index.hpp"

namespace ringload::inline v0::detail {

class named_catalog {
 public:
  explicit named_catalog(ringload::catalog contents)
      : catalog_(std::move(contents)), names_(catalog_) {}

  const ringload::catalog& catalog() const noexcept { return catalog_; }
  const name_index& names() const noexcept { return names_; }
  std::optional<std::uint32_t> find(std::string_view name) const noexcept {
    return names_.find(name);
  }

 private:
  const ringload::catalog catalog_;
  const name_index names_;  // Refers to `catalog_`.
};

}  // namespace ringload::inline v0::detail
