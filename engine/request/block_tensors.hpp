// SPDX-License-Identifier: Apache-2.0
#pragma once

// Recognises quantised tensors that can be dequantised. These tensors consist of blocks. Each block
// has a fixed number of elements and bytes. The catalog lists a tensor of blocks as a
// one-dimensional tensor of bytes. However, slices are ranges of elements in the original shape. In
// the last dimension, a slice must consist of complete blocks.

#include <cstdint>
#include <optional>
#include <ringload/catalog.hpp>
#include <vector>

#include "base/numeric/dequantize.hpp"

namespace ringload::inline v0 {

// Returns the block type of a tensor. Returns an empty optional if the tensor has no blocks, or if
// its size does not match its block type.
std::optional<block_type> blocks_of(const tensor_info& t);

// Converts a shape in elements to a shape in blocks. For example, if a block has 32 elements,
// [rows, 512] becomes [rows, 16].
std::vector<std::uint64_t> in_blocks(std::vector<std::uint64_t> shape, block_type type);

}  // namespace ringload::inline v0
