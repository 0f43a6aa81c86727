// SPDX-License-Identifier: Apache-2.0
#pragma once

// Lists the ranges of one file that staged reads must fetch. plan.hpp explains the terms.

#include <cstdint>
#include <span>
#include <vector>

#include "base/fault.hpp"
#include "plan/plan.hpp"
#include "plan/split_pieces.hpp"

namespace ringload::inline v0 {

// A wanted range of the file: the bytes of an item, or a stored stream that fits in one read.
struct segment {
  std::uint64_t begin;
  std::uint64_t end;
  // Index of the item, which is also the index of its part. For a stream, index in plan::streams.
  std::uint32_t index;
  bool is_stream;
};

struct file_segments {
  std::vector<segment> segments;  // Sorted by `begin`.
  // Indices in plan::streams of the streams that are longer than one read.
  std::vector<std::uint32_t> chains;
};

// Limit for the number of rows of all slices in a plan. A slice has several rows if its stored
// bytes are too far apart for one read. Each row needs its own read.
inline constexpr std::uint64_t rows_max = std::uint64_t{1} << 22;

// Returns the segments of items[first, last). All these items must be in one file. The caller
// must already have set `stream` in the parts of `new_plan`. If an item has n rows, reduces
// `rows_left` by n - 1. If too few rows are left, returns errc::memory_exceeded and sets
// `failed_tensor` to the index of the tensor.
result<file_segments> segments_of(std::uint32_t first, std::uint32_t last,
                                  std::span<const stored_item> items, const plan& new_plan,
                                  std::uint64_t slot_bytes, std::uint64_t& rows_left,
                                  std::uint32_t* failed_tensor);

}  // namespace ringload::inline v0
