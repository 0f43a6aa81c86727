// SPDX-License-Identifier: Apache-2.0
#pragma once

// Plans the staged reads of one file. The bytes of staged reads are copied from slots. Each read
// has at most the length of a slot. plan.hpp explains the terms.

#include <cstdint>
#include <span>

#include "base/fault.hpp"
#include "plan/plan.hpp"
#include "plan/plan_input.hpp"
#include "plan/segments.hpp"
#include "plan/split_pieces.hpp"

namespace ringload::inline v0 {

// `segments` must be sorted by `begin`. Adds reads, copies and feeds to `new_plan`. Sets the reads
// of the parts and streams of `new_plan`.
void add_staged_reads(std::uint32_t file, std::span<const segment> segments,
                      std::span<const stored_item> items, std::uint64_t slot_bytes, plan& new_plan);

// Chains of any plan may have this number of full reads, in addition to the reads that the memory
// of the plan accounts for: see chain_reads_max(). A read of a chain needs 84 bytes in the plan: a
// read_op of 56 bytes, a feed_op of 24 bytes and 4 bytes in plan::order. Therefore these 2^19 reads
// need 42 MiB. The reads fetch 32 GiB with slots of 64 KiB, and 2 TiB with slots of 4 MiB.
inline constexpr std::uint64_t extra_chain_reads = std::uint64_t{1} << 19;

// Returns the limit for the full reads of all chains of a plan. Without a limit, the list of reads
// could exhaust the memory, because a sparse file can have a short tensor with a stored stream of
// any size. `memory_bytes` is the size of the arenas and of the caller memory. Each slot of this
// memory raises the limit by 8 reads, because a conversion can make elements 8 times smaller.
// Therefore a tensor that is loaded as a whole is not refused if its stored stream is not longer
// than its decoded bytes. Example: a stream of 2^40 bytes has 2^24 reads with slots of 64 KiB. The
// 8 reads need 672 bytes, which is about 1% of the smallest slot.
constexpr std::uint64_t chain_reads_max(std::uint64_t memory_bytes,
                                        std::uint64_t slot_bytes) noexcept {
  return extra_chain_reads + memory_bytes / slot_bytes * 8;
}

// Adds the reads of a stream that needs more than one read. Adds the number of full reads to
// `chain_reads`, without the first read. If the sum would exceed `reads_max`, adds no read and
// returns errc::memory_exceeded.
result<void> add_chain_reads(std::uint32_t stream, const wanted_stream& stored,
                             std::uint64_t slot_bytes, std::uint64_t reads_max,
                             std::uint64_t& chain_reads, plan& new_plan);

}  // namespace ringload::inline v0
