// SPDX-License-Identifier: Apache-2.0
#pragma once

// The indices of sparse objects: what the format demands of them, and whether they keep to it. They
// are unsigned integers of 64 bits, looked at piece by piece.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <ringload/catalog.hpp>
#include <span>
#include <string_view>
#include <vector>

#include "base/fault.hpp"

namespace ringload::inline v0 {

struct index_rule {
  // Elements [d * run, (d + 1) * run) are below bounds[d]. Empty: the rule is the other one.
  std::vector<std::uint64_t> bounds;
  std::uint64_t run = 0;
  // The elements begin with 0, never decrease, and end with this.
  std::uint64_t last = 0;
};

// What holds for a part of a sparse_csr or sparse_coo object of `values` values; empty: nothing.
std::optional<index_rule> index_rule_of(const composite_info& whole, std::string_view part,
                                        std::uint64_t values);

class index_checker {
 public:
  // The rule outlives this.
  explicit index_checker(const index_rule& rule) noexcept : rule_(rule) {}

  // The next elements, whole ones, little-endian; and the end, after the last of them. A fault is
  // errc::wrong_indices without a place.
  result<void> take(std::span<const std::byte> bytes);
  result<void> finish() const;

 private:
  result<void> take_one(std::uint64_t value);

  const index_rule& rule_;
  std::uint64_t at_ = 0;
  std::uint64_t before_ = 0;
};

}  // namespace ringload::inline v0
