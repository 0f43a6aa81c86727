// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <hdf5.h>

#include <cstdint>
#include <ringload/dtype.hpp>
#include <string>
#include <vector>

namespace ringload::inline v0::h5 {

struct element_form {
  bool is_read = false;
  // The following members are set if `is_read` is true.
  ringload::dtype dtype = dtype::u8;
  bool big_endian = false;
  // Dimensions of an element that is an array. The tensor has these dimensions after the dimensions
  // of the dataset.
  std::vector<std::uint64_t> dimensions;
  // The following members are set if `is_read` is false.
  std::string reason;
  bool numbers = false;  // True if the elements are numbers in an unsupported form.
};

// `type` is the type of `dataset`.
element_form element_form_of(hid_t type, hid_t dataset);

}  // namespace ringload::inline v0::h5
