// SPDX-License-Identifier: Apache-2.0
#pragma once

// Brings elements that lie apart in memory side by side, in row-major order: a strided tensor as a
// file holds it. From any element on, so that it can be done piece by piece.

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace ringload::inline v0 {

class strided_elements {
 public:
  strided_elements() = default;
  // `shape` and `stride_bytes` are of one length; no product overflows. Strides may be 0 or
  // negative; the first element is at index 0 in every dimension.
  strided_elements(std::uint32_t element_bytes, std::span<const std::uint64_t> shape,
                   std::span<const std::int64_t> stride_bytes);

  std::uint64_t count() const noexcept { return count_; }
  // Whether element n lies n elements behind the first.
  bool dense() const noexcept;

  // Copies elements [from, from + count) to `to`; `first` is the address of the first element of
  // all. The bytes that they take together are what they cover in `to`.
  void gather(const std::byte* first, std::uint64_t from, std::uint64_t count, std::byte* to) const;

 private:
  struct dimension {
    std::uint64_t count;
    std::int64_t stride_bytes;
  };

  std::uint32_t element_bytes_ = 1;
  std::uint64_t count_ = 1;
  std::vector<dimension> dimensions_;  // Outermost first; none of size 1, and none that the one
                                       // before it goes on from without a gap.
};

}  // namespace ringload::inline v0
