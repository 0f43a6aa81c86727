// SPDX-License-Identifier: Apache-2.0
#pragma once

// Plans the staged reads of one file, each at most a slot long.

#include <cstdint>
#include <span>
#include <vector>

#include "plan/plan.hpp"
#include "plan/split_pieces.hpp"

namespace ringload::inline v0 {

// A wanted range of the file: an item, or a stored stream that fits in one read.
struct segment {
  std::uint64_t begin;
  std::uint64_t end;
  std::uint32_t index;  // Index of the item, which is also its part's; or index in plan::streams.
  bool is_stream;
};

// Returns the ranges of a map's stored bytes to read: its rows if they lie too far apart for one
// read, otherwise one range. Returns nothing if there are more than `max` ranges.
std::vector<range> rows_of(const strided_map& map, std::uint64_t max);

// `segments` must be sorted by begin. Adds reads, copies and feeds to `new_plan` and sets the reads
// of its parts and streams.
void stage(std::uint32_t file, std::span<const segment> segments,
           std::span<const stored_item> items, std::uint64_t slot_bytes, plan& new_plan);

// Adds the reads of a stream that needs more than one read.
void stage_chain(std::uint32_t stream, const wanted_stream& stored, std::uint64_t slot_bytes,
                 plan& new_plan);

}  // namespace ringload::inline v0
