// SPDX-License-Identifier: Apache-2.0
#pragma once

// Resolves a selection against a catalog into tensors, ranges and devices. Pure.

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
  std::uint32_t tensor = 0;   // Index into catalog::tensors.
  std::vector<range> ranges;  // By dimension; empty: the whole tensor.
};

// A tensor to be loaded: one box, or, fused, several concatenated along `dim`.
struct chosen_tensor {
  std::string name;
  std::vector<std::uint64_t> shape;
  std::vector<box> boxes;
  std::uint32_t dim = 0;
  std::uint32_t device = 0;  // Index of the loader's device.
  bool replicated = false;   // Every other device has the same tensor.
};

// Returns tensors in the catalog's order. A fused tensor has the position of its first box. A
// tensor for several devices is repeated for each device. An empty selection returns each tensor
// once, whole. Shapes are shapes of the stored tensors, with one exception: for parts of quantised
// blocks and for fused blocks, ranges and shapes count elements (see block_tensors.hpp). `source`
// is the place of faults that concern no single tensor. If `devices` is 0, placement is not
// checked.
result<std::vector<chosen_tensor>> choose(const catalog& from, const name_index& names,
                                          const detail::requests& wanted,
                                          const std::string& source = {},
                                          std::uint32_t devices = 0);

}  // namespace ringload::inline v0
