// SPDX-License-Identifier: Apache-2.0
#pragma once

// Rules for the indices of sparse objects, and a checker for the rules. Indices are unsigned 64-bit
// integers, checked piece by piece.

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
  // Elements [d * run, (d + 1) * run) must be below bounds[d]. Empty: `last` applies instead.
  std::vector<std::uint64_t> bounds;
  std::uint64_t run = 0;
  // If `bounds` is empty: the elements must begin with 0, never decrease, and end with `last`.
  std::uint64_t last = 0;
};

// Returns the rule for one part of a sparse_csr or sparse_coo object with `values` values. Empty if
// no rule applies.
std::optional<index_rule> index_rule_of(const composite_info& whole, std::string_view part,
                                        std::uint64_t values);

class index_checker {
 public:
  // `rule` must outlive the checker.
  explicit index_checker(const index_rule& rule) noexcept : rule_(rule) {}

  // take() checks the next whole little-endian elements. finish() must be called after the last
  // element. A fault is errc::wrong_indices without a place.
  result<void> take(std::span<const std::byte> bytes);
  result<void> finish() const;

 private:
  result<void> take_one(std::uint64_t value);

  const index_rule& rule_;
  std::uint64_t position_ = 0;
  std::uint64_t previous_ = 0;
};

}  // namespace ringload::inline v0
