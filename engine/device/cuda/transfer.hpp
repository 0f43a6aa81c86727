// SPDX-License-Identifier: Apache-2.0
#pragma once

// How the copies of one slot reach the arena: arithmetic alone.
//
//   slot     |aaaaaaaaaaaaaaaaaaaaaa|b|cc|d|eeeeeeeeeeeeeeeeeeeeeee|f|gg|
//   direct    a                             e                              a copy for each
//   staged                           [b  d]                         [f g]  a copy for each range
//   pieces                           b  cc d                        f gg   scattered from there
//
// A call of the driver takes as long as 256 KiB take on the bus, so what is smaller shares one: it
// is copied together with its neighbours into a staging buffer, to the offset that it has in the
// slot, and a kernel takes it from there to its place. So does all that is converted, or whose
// elements do not lie side by side.

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "plan/plan.hpp"

namespace ringload::inline v0::cuda {

// What a link of 52 GB/s carries in the 5 us of a call.
inline constexpr std::uint32_t call_worth_bytes = 256 * 1024;

// Fewer small copies than this are made one by one: staging takes two calls, and the memory's time.
inline constexpr std::size_t scattered_copies_min = 4;

struct slot_range {
  std::uint32_t begin;
  std::uint32_t end;

  friend bool operator==(const slot_range&, const slot_range&) = default;
};

struct transfer {
  std::vector<copy_op> direct;
  std::vector<copy_op> scattered;
  std::vector<copy_op> boxed;      // Of maps, and of blocks that are dequantised.
  std::vector<slot_range> staged;  // Every byte of `scattered` and `boxed` lies in one of them.
};

// Decides for the copies of a slot, in the order of their slot_offset. Throws std::bad_alloc.
void plan_transfer(std::span<const copy_op> copies, transfer& how);

// Whether these bytes, which stay as they are, are not among the small ones of a slot that share a
// call.
inline bool is_worth_a_copy(const copy_op& one, std::size_t copies_of_slot) noexcept {
  return one.bytes >= call_worth_bytes || copies_of_slot < scattered_copies_min;
}

// A part of a copy, as the kernel takes it: at most `bytes_max` of the slot, whole elements.
struct copy_part {
  std::uint32_t slot_offset;
  std::uint32_t bytes;
  std::uint64_t landed_offset;  // From where the copy's first byte goes.
};

// Calls `work` with each part in turn, until one call fails, and returns how the last one went.
template <class Result, class Work>
Result for_each_part(const copy_op& copy, std::uint32_t bytes_max, Work work) {
  Result how{};
  for (std::uint32_t done = 0; done < copy.bytes && !how; done += bytes_max) {
    const std::uint64_t landed =
        copy.as.needed() ? std::uint64_t{done} / copy.as.from_bytes() * copy.as.to_bytes() : done;
    how = work(copy_part{copy.slot_offset + done, std::min(copy.bytes - done, bytes_max), landed});
  }
  return how;
}

}  // namespace ringload::inline v0::cuda
