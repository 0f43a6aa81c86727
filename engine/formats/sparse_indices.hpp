// SPDX-License-Identifier: Apache-2.0
#pragma once

// Rules for the indices of sparse objects, and a class that checks indices by these rules. Indices
// are integers of 8 to 64 bits. The caller may pass the indices in several calls.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <ringload/catalog.hpp>
#include <span>
#include <string_view>
#include <vector>

#include "base/fault.hpp"

namespace ringload::inline v0 {

// Returns true if indices may have this type.
bool is_index_type(dtype type) noexcept;

struct index_rule {
  dtype type = dtype::u64;
  // Element i must be less than bounds[i / run % bounds.size()]. If `bounds` is empty, the rule for
  // `last` applies.
  std::vector<std::uint64_t> bounds;
  std::uint64_t run = 1;  // Number of consecutive elements with the same bound.
  // If `bounds` is empty, the first element must be 0, the elements must never decrease, and the
  // last element must be `last`.
  std::uint64_t last = 0;
};

// Returns the rule for the indices in `tensor`, which is the part `part` of the sparse_csr or
// sparse_coo object `whole`. `values` is the number of stored values. The parts have the names that
// .zt, PyTorch and ONNX use. Returns an empty optional if the part has no rule.
std::optional<index_rule> index_rule_of(const composite_info& whole, std::string_view part,
                                        const tensor_info& tensor, std::uint64_t values);

class index_checker {
 public:
  // `rule` must outlive the checker.
  explicit index_checker(const index_rule& rule) noexcept : rule_(rule) {}

  // take() checks the next elements, which must be whole and little-endian. The caller must call
  // finish() after the last element. Faults have the code errc::wrong_indices and an empty
  // `where()`.
  result<void> take(std::span<const std::byte> bytes);
  result<void> finish() const;

 private:
  template <class T>
  result<void> take_all(std::span<const std::byte> bytes);
  result<void> take_one(std::uint64_t value);

  const index_rule& rule_;
  std::uint64_t position_ = 0;
  std::uint64_t previous_ = 0;
};

}  // namespace ringload::inline v0
