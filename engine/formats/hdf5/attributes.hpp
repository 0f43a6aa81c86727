// SPDX-License-Identifier: Apache-2.0
#pragma once

// Reads the attributes of an HDF5 file and of its groups, such as layer_names of Keras.

#include <hdf5.h>

#include <cstddef>
#include <optional>
#include <string>

#include "base/fault.hpp"
#include "formats/hdf5.hpp"

namespace ringload::inline v0::h5 {

// Limit for all attributes together.
inline constexpr std::size_t attribute_bytes_max = std::size_t{64} << 20;

struct attribute_reader {
  hdf5_contents& contents;
  std::size_t bytes_left = attribute_bytes_max;

  // Adds the attributes of `object` to contents.attributes. Adds `name` and a dot before each
  // attribute name, unless `name` is empty. If an attribute cannot be read, is too large, has an
  // unsupported type or several dimensions, or exceeds hdf5_attributes_max, only increments
  // contents.attributes_left_out.
  result<void> read_all(hid_t object, const std::string& name);
};

// Returns the text of a scalar attribute. Returns an empty optional if `object` has no such
// attribute, or if the attribute is not one short text.
std::optional<std::string> short_text_of(hid_t object, const char* attribute_name);

}  // namespace ringload::inline v0::h5
