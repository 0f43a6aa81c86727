// SPDX-License-Identifier: Apache-2.0
#pragma once

// Reads the attributes of an HDF5 file and of its groups. For example, Keras stores layer_names in
// an attribute.

#include <hdf5.h>

#include <cstddef>
#include <string>

#include "base/fault.hpp"
#include "formats/hdf5.hpp"

namespace ringload::inline v0::h5 {

// Limit for all attributes together.
inline constexpr std::size_t attribute_bytes_max = std::size_t{64} << 20;

struct attribute_reader {
  hdf5_contents& to;
  std::size_t bytes_left = attribute_bytes_max;

  // Adds the texts and numbers of `object`, whose name is `name`, to to.attributes. All other
  // attributes, long lists of numbers, and attributes past the limit are only counted.
  result<void> read_all(hid_t object, const std::string& name);
};

}  // namespace ringload::inline v0::h5
