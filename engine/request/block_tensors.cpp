// SPDX-License-Identifier: Apache-2.0
#include "request/block_tensors.hpp"

#include <utility>

#include "base/checked.hpp"

namespace ringload::inline v0 {

std::optional<block_type> blocks_of(const tensor_info& t) {
  const auto type = block_type_named(t.type);
  // Blocks can be dequantised only if they are stored unchanged, or compressed as one stream.
  const bool in_order = t.encoding.empty() || t.encoding == "zstd";
  const bool as_bytes = t.dtype == dtype::u8 && t.shape.size() == 1 && in_order;
  if (!type || !as_bytes || t.original_shape.empty()) return std::nullopt;
  const block_size size = size_of(*type);
  if (t.original_shape.back() % size.elements != 0) return std::nullopt;
  std::optional<std::uint64_t> bytes = size.bytes;
  for (const std::uint64_t count : in_blocks(t.original_shape, *type)) {
    if (bytes) bytes = checked_multiply(*bytes, count);
  }
  return bytes == t.bytes ? type : std::nullopt;
}

std::vector<std::uint64_t> in_blocks(std::vector<std::uint64_t> shape, block_type type) {
  shape.back() /= size_of(type).elements;
  return shape;
}

}  // namespace ringload::inline v0
