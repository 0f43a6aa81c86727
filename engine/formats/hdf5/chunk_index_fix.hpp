// SPDX-License-Identifier: Apache-2.0
#pragma once

// Checks and corrects the positions of chunks in a dataset whose chunk index is an extensible
// array. libhdf5 reports wrong positions if the unlimited dimension is not the first dimension.

#include <hdf5.h>

#include <cstdint>
#include <span>
#include <vector>

#include "formats/hdf5.hpp"

namespace ringload::inline v0::h5 {

struct chunk_places {
  hid_t dataset;
  // Maximum sizes of the dimensions. One maximum is H5S_UNLIMITED.
  std::span<const hsize_t> size_max;
  std::span<const std::uint64_t> chunk_shape;  // At least as many elements as `size_max`.
  std::size_t stride;  // Number of elements of hdf5_dataset::chunk_origins for one chunk.

  // Returns true if libhdf5 finds a chunk of the right size at each position. If any position is
  // wrong, the position of the last chunk is wrong, and libhdf5 finds no chunk there.
  bool are_correct(const hdf5_dataset& description) const;

  // Corrects the positions in `origins`. In the array, the unlimited dimension is first, but
  // libhdf5 computed the positions as if the dimensions had their usual order. Returns false if the
  // positions cannot be corrected.
  bool reorder(std::vector<std::uint64_t>& origins) const;
};

}  // namespace ringload::inline v0::h5
