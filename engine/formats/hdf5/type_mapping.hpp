// SPDX-License-Identifier: Apache-2.0
#pragma once

// Maps HDF5 types to element types of tensors.

#include <hdf5.h>

#include <cstdint>
#include <ringload/dtype.hpp>
#include <string>
#include <vector>

namespace ringload::inline v0::h5 {

struct element_form {
  bool is_read = false;
  // Set if `is_read`:
  ringload::dtype dtype = dtype::u8;
  bool big_endian = false;
  // Dimensions of array elements, which are appended to the tensor's dimensions.
  std::vector<std::uint64_t> dimensions;
  // Set if not `is_read`:
  std::string reason;
  bool numbers = false;  // The elements are numbers nevertheless.
};

element_form element_form_of(hid_t type);

}  // namespace ringload::inline v0::h5
