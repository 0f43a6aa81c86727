// SPDX-License-Identifier: Apache-2.0
#pragma once

// Decides how the copies of one slot reach the arena. Pure functions.
//
//   slot     |aaaaaaaaaaaaaaaaaaaaaa|b|cc|d|eeeeeeeeeeeeeeeeeeeeeee|f|gg|
//   direct    a                             e                              a copy for each
//   staged                           [b  d]                         [f g]  a copy for each range
//   pieces                           b  cc d                        f gg   scattered from there
//
// A driver call takes as long as 256 KiB on the bus, so smaller copies share a call. They are
// copied together with their neighbours into a staging buffer, at the same offsets as in the slot,
// and a kernel moves them to their destinations. Converted copies and copies of elements that are
// not contiguous are staged too.

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "plan/plan.hpp"

namespace ringload::inline v0::cuda {

// Bytes that a 52 GB/s link transfers in the 5 us of a call.
inline constexpr std::uint32_t call_worth_bytes = 256 * 1024;

// Fewer small copies than this are made one by one, because staging takes two calls and device
// memory bandwidth.
inline constexpr std::size_t scattered_copies_min = 4;

struct slot_range {
  std::uint32_t begin;
  std::uint32_t end;

  friend bool operator==(const slot_range&, const slot_range&) = default;
};

struct transfer {
  std::vector<copy_op> direct;
  std::vector<copy_op> scattered;
  std::vector<copy_op> boxed;      // Copies with maps, or of blocks that are dequantised.
  std::vector<slot_range> staged;  // Every byte of `scattered` and `boxed` lies in one range.
};

// Sorts the copies of a slot into the lists. `copies` must be ordered by slot_offset. Throws
// std::bad_alloc.
void plan_transfer(std::span<const copy_op> copies, transfer& plan);

// Returns true if this unconverted copy gets a call of its own instead of sharing one with small
// copies.
inline bool is_worth_a_copy(const copy_op& copy, std::size_t copies_of_slot) noexcept {
  return copy.bytes >= call_worth_bytes || copies_of_slot < scattered_copies_min;
}

// A part of a copy for the kernel: at most `bytes_max` of the slot, whole elements.
struct copy_part {
  std::uint32_t slot_offset;
  std::uint32_t bytes;
  std::uint64_t landed_offset;  // Offset from the target of the copy's first byte.
};

// Calls `work` with each part in turn until a call fails, and returns the last result.
template <class Result, class Work>
Result for_each_part(const copy_op& copy, std::uint32_t bytes_max, Work work) {
  Result outcome{};
  for (std::uint32_t done = 0; done < copy.bytes && !outcome; done += bytes_max) {
    const std::uint64_t landed =
        copy.cast.needed() ? std::uint64_t{done} / copy.cast.from_bytes() * copy.cast.to_bytes()
                           : done;
    outcome =
        work(copy_part{copy.slot_offset + done, std::min(copy.bytes - done, bytes_max), landed});
  }
  return outcome;
}

}  // namespace ringload::inline v0::cuda
