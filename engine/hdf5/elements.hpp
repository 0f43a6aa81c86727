// SPDX-License-Identifier: Apache-2.0
#pragma once

// Types of HDF5 as element types of tensors.

#include <hdf5.h>

#include <cstdint>
#include <ringload/dtype.hpp>
#include <string>
#include <vector>

namespace ringload::inline v0::h5 {

struct element_form {
  bool is_read = false;
  // Where it is read.
  ringload::dtype dtype = dtype::u8;
  bool big_endian = false;
  std::vector<std::uint64_t> dimensions;  // Of elements that are arrays; they become the tensor's.
  // Where it is not.
  std::string why;
  bool numbers = false;  // It is of numbers all the same.
};

element_form element_form_of(hid_t type);

}  // namespace ringload::inline v0::h5
