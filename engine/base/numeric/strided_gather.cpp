// SPDX-License-Identifier: Apache-2.0

#include "base/numeric/strided_gather.hpp"

#include <algorithm>
#include <cstring>

namespace ringload::inline v0 {

namespace {

template <std::size_t Bytes>
void copy_apart(const std::byte* from, std::int64_t stride, std::uint64_t count, std::byte* to) {
  for (std::uint64_t i = 0; i < count; ++i, from += stride, to += Bytes) {
    std::memcpy(to, from, Bytes);
  }
}

void copy_row(const std::byte* from, std::int64_t stride, std::uint64_t count, std::uint32_t bytes,
              std::byte* to) {
  if (stride == static_cast<std::int64_t>(bytes)) {
    std::memcpy(to, from, count * bytes);
    return;
  }
  switch (bytes) {
    case 1: return copy_apart<1>(from, stride, count, to);
    case 2: return copy_apart<2>(from, stride, count, to);
    case 4: return copy_apart<4>(from, stride, count, to);
    case 8: return copy_apart<8>(from, stride, count, to);
    default: return copy_apart<16>(from, stride, count, to);
  }
}

}  // namespace

strided_elements::strided_elements(std::uint32_t element_bytes,
                                   std::span<const std::uint64_t> shape,
                                   std::span<const std::int64_t> stride_bytes)
    : element_bytes_(element_bytes) {
  for (std::size_t d = 0; d < shape.size(); ++d) {
    count_ *= shape[d];
    if (shape[d] == 1) continue;
    if (!dimensions_.empty()) {
      dimension& before = dimensions_.back();
      const auto size = static_cast<std::int64_t>(shape[d]);
      if (before.stride_bytes == size * stride_bytes[d]) {
        before = {before.count * shape[d], stride_bytes[d]};
        continue;
      }
    }
    dimensions_.push_back({shape[d], stride_bytes[d]});
  }
  if (count_ == 0) dimensions_.clear();
}

bool strided_elements::dense() const noexcept {
  return dimensions_.empty() ||
         (dimensions_.size() == 1 &&
          dimensions_[0].stride_bytes == static_cast<std::int64_t>(element_bytes_));
}

void strided_elements::gather(const std::byte* first, std::uint64_t from, std::uint64_t count,
                              std::byte* to) const {
  if (count == 0) return;
  if (dimensions_.empty()) {
    std::memcpy(to, first, element_bytes_);
    return;
  }
  // Computes the index of element `from` in each dimension, and moves `first` to this element.
  std::vector<std::uint64_t> index(dimensions_.size());
  for (std::size_t d = dimensions_.size(); d-- > 0;) {
    index[d] = from % dimensions_[d].count;
    from /= dimensions_[d].count;
    first += static_cast<std::int64_t>(index[d]) * dimensions_[d].stride_bytes;
  }
  const dimension& row = dimensions_.back();
  for (;;) {
    const std::uint64_t row_count = std::min(count, row.count - index.back());
    copy_row(first, row.stride_bytes, row_count, element_bytes_, to);
    to += row_count * element_bytes_;
    count -= row_count;
    if (count == 0) return;
    // Moves to the beginning of the next row.
    first -= static_cast<std::int64_t>(index.back()) * row.stride_bytes;
    index.back() = 0;
    for (std::size_t d = dimensions_.size() - 1; d-- > 0;) {
      first += dimensions_[d].stride_bytes;
      if (++index[d] < dimensions_[d].count) break;
      first -= static_cast<std::int64_t>(dimensions_[d].count) * dimensions_[d].stride_bytes;
      index[d] = 0;
    }
  }
}

}  // namespace ringload::inline v0
