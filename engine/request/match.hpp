// SPDX-License-Identifier: Apache-2.0
#pragma once

// Matches the tensors of a checkpoint to the caller's destinations, and checks names, types,
// shapes, sizes and overlaps, all before the first byte is written. Pure.

#include <cstdint>
#include <ringload/catalog.hpp>
#include <ringload/fill.hpp>
#include <span>
#include <string>
#include <vector>

#include "base/fault.hpp"

namespace ringload::inline v0 {

struct matched_tensor {
  std::uint32_t destination;  // Index into the given destinations.
  std::uint32_t tensor;       // Index into catalog::tensors.
  // Members by dimension of the destination. Broadcasting puts sizes of 1 in front of the tensor's
  // shape. A type of less than a byte is dense and has one dimension, of bytes.
  std::vector<std::uint64_t> shape;
  std::vector<std::int64_t> stride_bytes;  // Distance of elements in the destination.
  std::vector<bool> repeated;              // The tensor has one element along the dimension.
};

struct matching {
  std::vector<matched_tensor> tensors;  // In the catalog's order.
  std::vector<std::string> missing;     // Names of destinations.
  std::vector<std::string> unexpected;  // Names of tensors.
};

// `from` is the catalog of the wanted tensors. `converts` returns true if a type converts to
// another.
result<matching> match(const catalog& from, std::span<const destination> into,
                       const fill_options& options, bool (*converts)(dtype from, dtype to));

}  // namespace ringload::inline v0
