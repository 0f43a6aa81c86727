// SPDX-License-Identifier: Apache-2.0
#pragma once

// Covers the bytes of one file that are staged with reads, each at most a slot long.

#include <cstdint>
#include <span>
#include <vector>

#include "plan/plan.hpp"
#include "plan/resolve.hpp"

namespace ringload::inline v0 {

// Bytes of the file that are wanted: of an item, or a stored stream that is to fit in one read.
struct segment {
  std::uint64_t begin;
  std::uint64_t end;
  std::uint32_t index;  // Of the item, which is also its part's; or of plan::streams.
  bool is_stream;
};

// Where the rows of a map are that lie too far apart to be read through, in its stored bytes; of a
// map whose rows are near each other, all of it. Empty if there are more than `max`.
std::vector<range> rows_of(const strided_map& map, std::uint64_t max);

// `segments` stand by their begin. Reads, copies and feeds are added to `made`, and its parts and
// streams are told of their reads.
void stage(std::uint32_t file, std::span<const segment> segments,
           std::span<const stored_item> items, std::uint64_t slot_bytes, plan& made);

// The reads of a stream that needs more than one.
void stage_chain(std::uint32_t stream, const wanted_stream& stored, std::uint64_t slot_bytes,
                 plan& made);

}  // namespace ringload::inline v0
