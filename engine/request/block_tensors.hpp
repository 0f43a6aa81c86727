// SPDX-License-Identifier: Apache-2.0
#pragma once

// Tensors of quantised blocks that can be dequantised. Such a tensor is stored as one dimension of
// bytes. A slice counts the elements of the original shape. In the last dimension, a slice must
// consist of whole blocks.

#include <cstdint>
#include <optional>
#include <ringload/catalog.hpp>
#include <vector>

#include "base/numeric/dequantize.hpp"

namespace ringload::inline v0 {

// Empty for all other tensors, and if the sizes contradict a block type's name.
std::optional<block_type> blocks_of(const tensor_info& t);

// Converts a shape from elements to blocks: with 32 elements a block, [rows, 512] is [rows, 16].
std::vector<std::uint64_t> in_blocks(std::vector<std::uint64_t> shape, block_type type);

}  // namespace ringload::inline v0
