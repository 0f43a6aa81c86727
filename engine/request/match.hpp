// SPDX-License-Identifier: Apache-2.0
#pragma once

// Matches the tensors of a checkpoint with the destinations of a fill. Checks names, types, shapes,
// sizes and overlaps, before the first byte is written. Pure functions.

#include <cstdint>
#include <functional>
#include <optional>
#include <ringload/catalog.hpp>
#include <ringload/fill.hpp>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/fault.hpp"

namespace ringload::inline v0 {

// A tensor and its destination.
struct matched_tensor {
  std::uint32_t destination;  // Index in the list of destinations.
  std::uint32_t tensor;       // Index in catalog::tensors.
  // The vectors are indexed by dimension of the destination. A tensor with fewer dimensions is
  // treated as if dimensions of size 1 were added in front. If the elements have less than a byte,
  // the destination is contiguous, and `shape` has one dimension, which counts bytes.
  std::vector<std::uint64_t> shape;
  std::vector<std::int64_t> stride_bytes;  // The strides of the destination in bytes.
  // An element is true if the tensor has size 1 in the dimension and the destination has another
  // size. The fill repeats the tensor in this dimension.
  std::vector<bool> repeated;
};

struct matching {
  std::vector<matched_tensor> tensors;  // In the order of the catalog.
  std::vector<std::string> missing;     // Names of destinations without a tensor.
  std::vector<std::string> unexpected;  // Names of tensors without a destination.
};

// Returns the error of the unreadable object that has the tensor `name`. Returns an empty optional
// if no unreadable object has the tensor.
using unreadable_lookup = std::function<std::optional<fault>(std::string_view name)>;

// `from` is the catalog of the selected tensors. `converts(a, b)` must return true if a load can
// convert the type a to the type b. If `from` has no tensor for a destination, match() calls
// `find_unreadable` with the name of the tensor, and fails with the returned error.
result<matching> match(const catalog& from, std::span<const destination> into,
                       const fill_options& options, bool (*converts)(dtype from, dtype to),
                       const unreadable_lookup& find_unreadable = {});

}  // namespace ringload::inline v0
