// SPDX-License-Identifier: Apache-2.0
#pragma once

// Tensors of blocks that can be dequantised. They are stored as one dimension of bytes; a slice of
// one counts the elements of its original shape, and in the last dimension whole blocks.

#include <cstdint>
#include <optional>
#include <ringload/catalog.hpp>
#include <vector>

#include "base/numeric/dequantize.hpp"

namespace ringload::inline v0 {

// Empty for all other tensors, also where the type's name promises blocks and the sizes do not.
std::optional<block_type> blocks_of(const tensor_info& t);

// The shape in blocks: [rows, 512] of 32 elements each is [rows, 16].
std::vector<std::uint64_t> in_blocks(std::vector<std::uint64_t> shape, block_type type);

}  // namespace ringload::inline v0
