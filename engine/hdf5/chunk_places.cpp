// SPDX-License-Identifier: Apache-2.0
#include "hdf5/chunk_places.hpp"

#include <algorithm>
#include <array>
#include <optional>

#include "core/checked.hpp"

namespace ringload::inline v0::h5 {

bool chunk_places::all_right(const hdf5_dataset& of) const {
  for (std::size_t i = 0; i < of.chunks.size(); ++i) {
    std::array<hsize_t, H5S_MAX_RANK> origin = {};
    for (std::size_t d = 0; d < size_max.size(); ++d) {
      origin[d] = of.chunk_origins[i * stride + d];
      if (origin[d] >= of.shape[d]) return false;
    }
    hsize_t bytes = 0;
    if (::H5Dget_chunk_storage_size(dataset, origin.data(), &bytes) < 0 ||
        bytes != of.chunks[i].bytes) {
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
  // How many chunks there may be along each dimension, and all along those but the unlimited one.
  std::vector<std::uint64_t> counts(rank, 0);
  std::optional<std::uint64_t> others = 1;
  for (std::size_t d = 0; d < rank; ++d) {
    if (chunk_shape[d] == 0 || (d != unlimited && size_max[d] == 0)) return false;
    if (d == unlimited) continue;
    counts[d] = (size_max[d] - 1) / chunk_shape[d] + 1;
    others = others ? checked_multiply(*others, counts[d]) : others;
  }
  if (!others) return false;
  for (std::size_t at = 0; at + stride <= origins.size(); at += stride) {
    // Its number in the array.
    std::optional<std::uint64_t> number = 0;
    for (std::size_t d = 0; d < rank; ++d) {
      const auto shifted =
          number ? checked_multiply(*number, d > unlimited ? counts[d] : 1) : std::nullopt;
      const std::uint64_t place = origins[at + d] / chunk_shape[d];
      if (d < unlimited && place != 0) return false;
      number = shifted ? checked_add(*shifted, place) : std::nullopt;
    }
    if (!number) return false;
    origins[at + unlimited] = *number / *others * chunk_shape[unlimited];
    std::uint64_t rest = *number % *others;
    for (std::size_t d = rank; d-- > 0;) {
      if (d == unlimited) continue;
      origins[at + d] = rest % counts[d] * chunk_shape[d];
      rest /= counts[d];
    }
  }
  return true;
}

}  // namespace ringload::inline v0::h5
