// SPDX-License-Identifier: Apache-2.0
#pragma once

// Where the chunks of an extensible array lie in the dataset: what libhdf5 says of it, checked and
// put right.

#include <hdf5.h>

#include <cstdint>
#include <span>
#include <vector>

#include "formats/hdf5.hpp"

namespace ringload::inline v0::h5 {

struct chunk_places {
  hid_t dataset;
  std::span<const hsize_t> size_max;           // Of the dataset; one is H5S_UNLIMITED.
  std::span<const std::uint64_t> chunk_shape;  // At least as many.
  std::size_t stride;                          // From one chunk's place to the next.

  // Whether a look-up finds each chunk at its place. A wrong list is never found so: with each
  // wrong place it names one that is later in the array, and the last of those is not there.
  bool all_right(const hdf5_dataset& of) const;

  // From the order of the dimensions to that with the unlimited one first. False where the numbers
  // do not fit.
  bool reorder(std::vector<std::uint64_t>& origins) const;
};

}  // namespace ringload::inline v0::h5
