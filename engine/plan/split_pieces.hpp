// SPDX-License-Identifier: Apache-2.0
#pragma once

// The first half of planning: splits each wanted tensor into pieces of stored bytes and says how
// each piece reaches its destination.

#include <cstdint>
#include <vector>

#include "base/fault.hpp"
#include "plan/plan.hpp"
#include "plan/plan_input.hpp"

namespace ringload::inline v0 {

// Stored bytes that are contiguous and take the same route.
struct stored_item {
  // In the file: [begin, end). For a decoded stream, all of its stored bytes.
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
  // Target of the first element. Relative to the tensor's place if `own_place` is set, and to the
  // start of the block if the tensor lies in a block.
  std::uint64_t destination_offset = 0;
  std::uint64_t stream_offset = 0;  // For a stream: offset in the decoded bytes,
  std::uint64_t stream_bytes = 0;   // and number of decoded bytes.
  std::uint32_t tensor = 0;
  std::uint32_t file = 0;  // no_index if the bytes are in memory.
  // Numbered as in a plan. For a mapped tensor with a place, its mapping.
  std::uint32_t destination = 0;
  std::uint32_t block = no_index;
  std::uint32_t map = no_index;     // Index in resolved::maps.
  std::uint32_t stream = no_index;  // Index in plan_input::streams if the stream is decoded.
  conversion cast = {};             // Unused with a map.
  bool own_place = false;
  bool only = false;  // The tensor has no other item and no fill.

  // The members below are set by later steps.
  bool straight = false;  // A straight read fetches it.
  // Added to the offset from the start of a block, so that the elements are aligned. Only for a
  // straight item with its own place.
  std::uint32_t shift = 0;
  // The bytes [hole_begin, hole_end) belong to another item, which is straight.
  std::uint64_t hole_begin = 0;
  std::uint64_t hole_end = 0;
  std::uint32_t same_as = no_index;  // The item that fetches the same bytes to the same place.
  // The item that fetches the same bytes to another arena. If that item is straight, its bytes are
  // copied from there.
  std::uint32_t replica_of = no_index;
};

struct resolved {
  std::vector<stored_item> items;  // Ordered by tensor.
  std::vector<strided_map> maps;
  // Offsets may be relative to a place that is not known yet, as in items.
  std::vector<fill_op> fills;
  std::vector<std::byte> fill_values;
  std::vector<placement> tensors;  // For a tensor in the arena, only the size is set.
  std::uint64_t bytes_wanted = 0;
};

result<resolved> resolve(const plan_input& input, std::uint32_t* culprit);

}  // namespace ringload::inline v0
