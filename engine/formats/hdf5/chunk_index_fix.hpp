// SPDX-License-Identifier: Apache-2.0
#pragma once

// Checks and corrects the places of chunks that libhdf5 reports for an extensible array. libhdf5
// reports wrong places if the unlimited dimension is not the first dimension.

#include <hdf5.h>

#include <cstdint>
#include <span>
#include <vector>

#include "formats/hdf5.hpp"

namespace ringload::inline v0::h5 {

struct chunk_places {
  hid_t dataset;
  // Maximum sizes of the dimensions. One of them is H5S_UNLIMITED.
  std::span<const hsize_t> size_max;
  std::span<const std::uint64_t> chunk_shape;  // At least as many elements as `size_max`.
  std::size_t stride;  // Distance between the places of two chunks in the list.

  // Returns true if a lookup finds each chunk at its place. If places are wrong, at least one
  // lookup fails, because the last of the wrong places has no chunk.
  bool are_correct(const hdf5_dataset& description) const;

  // Corrects the places: libhdf5 computed them in the order of the dimensions, but the array has
  // the unlimited dimension first. Returns false if a number does not fit.
  bool reorder(std::vector<std::uint64_t>& origins) const;
};

}  // namespace ringload::inline v0::h5
