// SPDX-License-Identifier: Apache-2.0
#pragma once

// Checks and corrects the places of the chunks of an extensible array that libhdf5 reports.

#include <hdf5.h>

#include <cstdint>
#include <span>
#include <vector>

#include "formats/hdf5.hpp"

namespace ringload::inline v0::h5 {

struct chunk_places {
  hid_t dataset;
  // Maximum sizes of the dataset's dimensions; one is H5S_UNLIMITED.
  std::span<const hsize_t> size_max;
  std::span<const std::uint64_t> chunk_shape;  // At least as many entries.
  std::size_t stride;                          // Distance between the places of two chunks.

  // Returns true if a look-up finds each chunk at its place. A wrong list always fails: each wrong
  // place names a chunk that is later in the array, and the last of those does not exist.
  bool are_correct(const hdf5_dataset& description) const;

  // Converts places from the order of the dimensions to the order with the unlimited dimension
  // first. Returns false if the numbers do not fit.
  bool reorder(std::vector<std::uint64_t>& origins) const;
};

}  // namespace ringload::inline v0::h5
