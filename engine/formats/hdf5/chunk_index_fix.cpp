// SPDX-License-Identifier: Apache-2.0

#include "formats/hdf5/chunk_index_fix.hpp"

#include <algorithm>
#include <array>
#include <optional>

#include "base/checked.hpp"

namespace ringload::inline v0::h5 {

bool chunk_places::are_correct(const hdf5_dataset& description) const {
  for (std::size_t i = 0; i < description.chunks.size(); ++i) {
    std::array<hsize_t, H5S_MAX_RANK> origin = {};
    for (std::size_t d = 0; d < size_max.size(); ++d) {
      origin[d] = description.chunk_origins[i * stride + d];
      if (origin[d] >= description.shape[d]) return false;
    }
    hsize_t bytes = 0;
    if (::H5Dget_chunk_storage_size(dataset, origin.data(), &bytes) < 0 ||
        bytes != description.chunks[i].bytes) {
      return false;
    }
  }
  return true;
}

bool chunk_places::reorder(std::vector<std::uint64_t>& origins) const {
  const std::size_t rank = size_max.size();
  const auto unlimited =
      static_cast<std::size_t>(std::ranges::find(size_max, H5S_UNLIMITED) - size_max.begin());
  if (unlimited == rank) return false;
  // The number of possible chunks in each limited dimension, and the product of these numbers.
  std::vector<std::uint64_t> counts(rank, 0);
  std::optional<std::uint64_t> limited_product = 1;
  for (std::size_t d = 0; d < rank; ++d) {
    if (chunk_shape[d] == 0 || (d != unlimited && size_max[d] == 0)) return false;
    if (d == unlimited) continue;
    counts[d] = (size_max[d] - 1) / chunk_shape[d] + 1;
    limited_product =
        limited_product ? checked_multiply(*limited_product, counts[d]) : limited_product;
  }
  if (!limited_product) return false;
  for (std::size_t origin = 0; origin + stride <= origins.size(); origin += stride) {
    // The index of the chunk in the array.
    std::optional<std::uint64_t> array_index = 0;
    for (std::size_t d = 0; d < rank; ++d) {
      const auto shifted = array_index
                               ? checked_multiply(*array_index, d > unlimited ? counts[d] : 1)
                               : std::nullopt;
      const std::uint64_t chunk_number = origins[origin + d] / chunk_shape[d];
      if (d < unlimited && chunk_number != 0) return false;
      array_index = shifted ? checked_add(*shifted, chunk_number) : std::nullopt;
    }
    if (!array_index) return false;
    origins[origin + unlimited] = *array_index / *limited_product * chunk_shape[unlimited];
    std::uint64_t remaining_index = *array_index % *limited_product;
    for (std::size_t d = rank; d-- > 0;) {
      if (d == unlimited) continue;
      origins[origin + d] = remaining_index % counts[d] * chunk_shape[d];
      remaining_index /= counts[d];
    }
  }
  return true;
}

}  // namespace ringload::inline v0::h5
