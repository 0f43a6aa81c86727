// SPDX-License-Identifier: Apache-2.0
#pragma once

// An immutable catalog with a lookup by name. Any thread.

#include <cstdint>
#include <mutex>
#include <optional>
#include <ringload/catalog.hpp>
#include <string_view>
#include <utility>
#include <vector>

namespace ringload::inline v0::detail {

class named_catalog {
 public:
  explicit named_catalog(ringload::catalog what)
      : catalog_(std::move(what)), by_name_(catalog_.tensors.size()) {}

  const ringload::catalog& catalog() const noexcept { return catalog_; }
  // The first call sorts the names.
  std::optional<std::uint32_t> find(std::string_view name) const noexcept;

 private:
  const ringload::catalog catalog_;
  mutable std::once_flag sorted_;
  mutable std::vector<std::uint32_t> by_name_;  // Written under sorted_.
};

}  // namespace ringload::inline v0::detail
