// SPDX-License-Identifier: Apache-2.0
#pragma once

// Converts a selection to a list of the tensors to load. The list has the ranges and the device of
// each tensor. Pure functions.

#include <cstdint>
#include <ringload/catalog.hpp>
#include <ringload/selection.hpp>
#include <string>
#include <vector>

#include "base/fault.hpp"
#include "base/range.hpp"
#include "catalog/name_index.hpp"

namespace ringload::inline v0 {

// A part of one tensor of the checkpoint.
struct box {
  std::uint32_t tensor = 0;  // Index in catalog::tensors.
  // One range for each dimension. The list is empty if and only if the box is the whole tensor.
  std::vector<range> ranges;
};

// A tensor to load. An ordinary tensor has one box. A fused tensor has several boxes, which are
// concatenated in dimension `dim`.
struct chosen_tensor {
  std::string name;
  std::vector<std::uint64_t> shape;
  std::vector<box> boxes;
  std::uint32_t dim = 0;
  std::uint32_t device = 0;  // Index in the loader's list of devices.
  bool replicated = false;   // True if other devices may load the same stored bytes.
};

// Returns the tensors in the order of the catalog. A fused tensor is listed at the position of its
// first box. A tensor for several devices is listed once for each device. If the selection is
// empty, the result contains each tensor once, as a whole.
//
// Ranges and shapes refer to tensor_info::shape. For a quantised tensor that is selected in part or
// fused, ranges and shapes refer to tensor_info::original_shape, which counts elements (see
// block_tensors.hpp). `source` is the name of the checkpoint in error texts, and may be empty.
// `devices` is the number of devices. If `devices` is 0, no devices are chosen.
result<std::vector<chosen_tensor>> choose(const catalog& from, const name_index& names,
                                          const detail::requests& requests,
                                          const std::string& source = {},
                                          std::uint32_t devices = 0);

}  // namespace ringload::inline v0
