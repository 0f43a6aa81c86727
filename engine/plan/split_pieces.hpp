// SPDX-License-Identifier: Apache-2.0
#pragma once

// The first half of make_plan(): splits each wanted tensor into items of stored bytes, and decides
// how each item reaches its destination. plan.hpp explains the terms.

#include <cstdint>
#include <span>
#include <vector>

#include "base/fault.hpp"
#include "plan/plan.hpp"
#include "plan/plan_input.hpp"

namespace ringload::inline v0 {

// A contiguous range of stored bytes of one tensor, and its destination.
struct stored_item {
  // The range of the item in the file. For a decoded stream, the range of all stored bytes of the
  // stream.
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
  // Offset of the first element in the destination. If `has_own_place` is set, the offset is
  // relative to the place of the tensor. If `block` is set, the offset is relative to the start of
  // this block of tensors.
  std::uint64_t destination_offset = 0;
  std::uint64_t stream_offset = 0;  // For a stream, the offset in the decoded bytes.
  std::uint64_t stream_bytes = 0;   // For a stream, the number of decoded bytes.
  std::uint32_t tensor = 0;
  std::uint32_t file = 0;  // no_index if the stored bytes are in host memory.
  // Destination number as in plan.hpp. If the tensor is mapped, a later step replaces the number by
  // the number of its mapping.
  std::uint32_t destination = 0;
  std::uint32_t block = no_index;
  std::uint32_t map = no_index;  // Index in split_tensors::maps.
  // Index in plan_input::streams, if the bytes must be decoded, or if they are in host memory.
  // Otherwise no_index.
  std::uint32_t stream = no_index;
  conversion cast = {};  // Not used with a map.
  // True if the tensor has its own place in its arena: see tensor_form.
  bool has_own_place = false;
  bool is_only_item = false;  // True if the tensor has no other item and no fill_op.

  // Later steps set the following members.
  bool unstaged = false;         // True if an unstaged read fetches the item.
  bool first_of_stream = false;  // True if no earlier item is in the same stream.
  // For a direct read, an item has the same offset within 4 KiB in memory as in the file. If its
  // elements would then be misaligned, the memory is `shift` bytes further. Used only for an
  // unstaged item with its own place.
  std::uint32_t shift = 0;
  // The bytes [hole_begin, hole_end) are part of another item, which is unstaged.
  std::uint64_t hole_begin = 0;
  std::uint64_t hole_end = 0;
  std::uint32_t same_as = no_index;  // The item that fetches the same bytes to the same place.
  // The item that fetches the same bytes to another arena. If that item is unstaged, the bytes are
  // copied from its destination.
  std::uint32_t replica_of = no_index;
};

// Returns the index of the item whose reads also fetch the bytes of `item`. Returns no_index if
// `item` needs its own reads.
inline std::uint32_t reused_item(const stored_item& item, std::span<const stored_item> items) {
  if (item.same_as != no_index) return item.same_as;
  const bool copied = item.replica_of != no_index && items[item.replica_of].unstaged;
  return copied ? item.replica_of : no_index;
}

struct split_tensors {
  std::vector<stored_item> items;  // Ordered by tensor.
  std::vector<strided_map> maps;
  // Offsets may be relative to the place of the tensor, which is not known yet.
  std::vector<fill_op> fills;
  std::vector<std::byte> fill_values;
  // If a tensor has its own place in an arena, its destination_offset is not known yet.
  std::vector<placement> tensors;
  std::uint64_t bytes_wanted = 0;
};

// Splits all tensors. Fails with the faults of make_plan() that concern sizes and ranges. If a
// tensor causes a fault, sets `failed_tensor` to the index of the tensor.
result<split_tensors> split_pieces(const plan_input& input, std::uint32_t* failed_tensor);

}  // namespace ringload::inline v0
