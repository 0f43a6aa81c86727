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
  std::uint32_t destination;  // Index into those given.
  std::uint32_t tensor;       // Index into catalog::tensors.
  // By dimension of the tensor's own shape, after broadcasting has put sizes of 1 in front: how far
  // apart elements lie in the destination, in bytes. A type of less than a byte is dense and has
  // one dimension, of bytes.
  std::vector<std::uint64_t> shape;        // Of the destination.
  std::vector<std::int64_t> stride_bytes;  // Of the destination.
  std::vector<bool> repeated;              // The tensor has one element along it.
};

struct matching {
  std::vector<matched_tensor> tensors;  // In the catalog's order.
  std::vector<std::string> missing;     // Names of destinations.
  std::vector<std::string> unexpected;  // Names of tensors.
};

// `from` is the catalog of what is wanted. Whether the one type converts to the other is asked of
// `converts`.
result<matching> match(const catalog& from, std::span<const destination> into,
                       const fill_options& how, bool (*converts)(dtype from, dtype to));

}  // namespace ringload::inline v0
