// SPDX-License-Identifier: Apache-2.0
#pragma once

// Resolves a selection against a catalog: which range of which tensor is loaded as what. Pure.

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
  std::uint32_t device = 0;  // Of the loader's.
  bool replicated = false;   // All other devices have the same.
};

// In the catalog's order; a fused tensor is at the position of its first box, and one for several
// devices stands there once for each. If everything is selected, each tensor of the catalog once,
// whole. Shapes are of the stored tensors; but ranges and shapes of parts of blocks, and of fused
// ones, count elements: see block_tensors.hpp. `source` is named by faults that are no one
// tensor's. With 0 devices it is not looked at where tensors go.
result<std::vector<chosen_tensor>> choose(const catalog& from, const name_index& names,
                                          const detail::requests& wanted,
                                          const std::string& source = {},
                                          std::uint32_t devices = 0);

}  // namespace ringload::inline v0
