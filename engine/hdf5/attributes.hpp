// SPDX-License-Identifier: Apache-2.0
#pragma once

// Attributes of the file and of its groups: Keras keeps layer_names and the like in them.

#include <hdf5.h>

#include <cstddef>
#include <string>

#include "core/fault.hpp"
#include "formats/hdf5.hpp"

namespace ringload::inline v0::h5 {

inline constexpr std::size_t attribute_bytes_max = std::size_t{64} << 20;  // All together.

struct attribute_reader {
  hdf5_contents& to;
  std::size_t bytes_left = attribute_bytes_max;

  // Those of an object that is called `name`; texts and lists of numbers, the others are counted.
  result<void> read_all(hid_t object, const std::string& name);
};

}  // namespace ringload::inline v0::h5
