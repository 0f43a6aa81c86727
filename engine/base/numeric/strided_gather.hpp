// SPDX-License-Identifier: Apache-2.0
#pragma once

// Copies the elements of a strided tensor into contiguous row-major order. Used by saves, because
// files store tensors in this order. A copy can start at any element, so that several calls can
// copy one tensor.

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace ringload::inline v0 {

class strided_elements {
 public:
  strided_elements() = default;
  // `shape` and `stride_bytes` must have equal length. The product of all sizes, and the product of
  // a size and its stride, must not overflow. Strides may be 0 or negative. Element 0 has the
  // index 0 in every dimension, even if strides are negative.
  strided_elements(std::uint32_t element_bytes, std::span<const std::uint64_t> shape,
                   std::span<const std::int64_t> stride_bytes);

  std::uint64_t count() const noexcept { return count_; }
  // Returns true if the elements are contiguous and in row-major order.
  bool dense() const noexcept;

  // Copies the elements [from, from + count) to `to`. `first` is the address of element 0.
  void gather(const std::byte* first, std::uint64_t from, std::uint64_t count, std::byte* to) const;

 private:
  struct dimension {
    std::uint64_t count;
    std::int64_t stride_bytes;
  };

  std::uint32_t element_bytes_ = 1;
  std::uint64_t count_ = 1;
  // Outermost dimension first, without dimensions of size 1. Contiguous dimensions are merged.
  std::vector<dimension> dimensions_;
};

}  // namespace ringload::inline v0
