// SPDX-License-Identifier: Apache-2.0
#pragma once

// The first half of making a plan: each wanted tensor becomes the pieces of stored bytes that it is
// brought from, with the way that each of them goes.

#include <cstdint>
#include <vector>

#include "core/fault.hpp"
#include "plan/plan.hpp"
#include "plan/wanted.hpp"

namespace ringload::inline v0 {

// Bytes that are stored together and go the same way.
struct stored_item {
  std::uint64_t begin = 0;  // In the file: [begin, end). Of a stream that is decoded, all of it.
  std::uint64_t end = 0;
  // Of its first element; where `own_place`, counted from the tensor's place in the arena, and
  // where the tensor goes to a block, from the block's beginning.
  std::uint64_t destination_offset = 0;
  std::uint64_t stream_offset = 0;  // Of a stream: where its bytes begin when decoded,
  std::uint64_t stream_bytes = 0;   // and how many of them there are.
  std::uint32_t tensor = 0;
  std::uint32_t file = 0;         // Or no_index, of what is in memory.
  std::uint32_t destination = 0;  // As in a plan; of a view that has a place, its mapping.
  std::uint32_t block = no_index;
  std::uint32_t map = no_index;     // Of resolved::maps.
  std::uint32_t stream = no_index;  // Of plan_input::streams, of one that is decoded.
  conversion as = {};               // Where there is no map.
  bool own_place = false;
  bool only = false;  // The tensor has no other, and nothing to be filled in.

  // How it is arranged, from here on.
  bool straight = false;  // Its bytes land straight.
  // How many bytes further from a block's beginning it lies in the arena than in the file, so that
  // its elements are aligned; of what is straight and has a place of its own.
  std::uint32_t shift = 0;
  std::uint64_t hole_begin = 0;  // The bytes [hole_begin, hole_end) are another item's, which is
  std::uint64_t hole_end = 0;    // straight.
  std::uint32_t same_as = no_index;  // The item that brings the same bytes to the same place.
  // The item that brings the same bytes to another: where that one is straight, they are copied
  // from what it has brought.
  std::uint32_t replica_of = no_index;
};

struct resolved {
  std::vector<stored_item> items;  // By tensor.
  std::vector<strided_map> maps;
  std::vector<fill_op> fills;  // As items: offsets may count from a place that is not fixed.
  std::vector<std::byte> fill_values;
  std::vector<placement> tensors;  // Of those in the arena, the size alone.
  std::uint64_t bytes_wanted = 0;
};

result<resolved> resolve(const plan_input& what, std::uint32_t* culprit);

}  // namespace ringload::inline v0
