// SPDX-License-Identifier: Apache-2.0
#pragma once

// Plans the staged reads of one file. The bytes of staged reads are copied from slots. Each read
// has at most the length of a slot. plan.hpp explains the terms.

#include <cstdint>
#include <span>

#include "plan/plan.hpp"
#include "plan/segments.hpp"
#include "plan/split_pieces.hpp"

namespace ringload::inline v0 {

// `segments` must be sorted by `begin`. Adds reads, copies and feeds to `new_plan`. Sets the reads
// of the parts and streams of `new_plan`.
void add_staged_reads(std::uint32_t file, std::span<const segment> segments,
                      std::span<const stored_item> items, std::uint64_t slot_bytes, plan& new_plan);

// Adds the reads of a stream that needs more than one read.
void add_chain_reads(std::uint32_t stream, const wanted_stream& stored, std::uint64_t slot_bytes,
                     plan& new_plan);

}  // namespace ringload::inline v0
