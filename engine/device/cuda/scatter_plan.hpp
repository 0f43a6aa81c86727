// SPDX-License-Identifier: Apache-2.0
#pragma once

// Decides how the device makes each copy of one slot (I/O buffer). Used by `copier` and
// `upload_rooms`. Pure functions.
//
//   slot     |aaaaaaaaaaaaaaaaaaaaaa|b|cc|d|eeeeeeeeeeeeeeeeeeeeeee|f|gg|
//   direct    a                             e                              one call for each copy
//   staged                           [b  d]                         [f g]  one call for each range
//   pieces                           b  cc d                        f gg   moved by a kernel
//
// A driver call takes as much time as the transfer of 256 KiB, so smaller copies share a call. One
// call copies a range with several small copies into a staging buffer on the device, at the same
// offsets as in the slot. Then a kernel moves the pieces to their destinations. Copies that are
// converted, and copies of elements that are not contiguous, are staged too.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "plan/plan.hpp"

namespace ringload::inline v0::cuda {

// A driver call takes 5 us. A bus with 52 GB/s transfers this number of bytes in 5 us.
inline constexpr std::uint32_t call_worth_bytes = 256 * 1024;

// If a slot has fewer small copies than this number, each small copy has its own call. Staging
// would need two calls and bandwidth of the device memory.
inline constexpr std::size_t scattered_copies_min = 4;

struct slot_range {
  std::uint32_t begin;
  std::uint32_t end;

  friend bool operator==(const slot_range&, const slot_range&) = default;
};

struct transfer {
  std::vector<copy_op> direct;
  // Contiguous copies for a kernel: small copies, and converted copies to an aligned destination.
  std::vector<copy_op> scattered;
  // Copies of elements that are not contiguous, dequantised copies, and converted copies to a
  // destination that is not aligned.
  std::vector<copy_op> boxed;
  // The ranges to copy into the staging buffer. The ranges contain all bytes of `scattered` and
  // `boxed`.
  std::vector<slot_range> staged;
};

// Distributes the copies of a slot over the lists of `plan`. `copies` must be ordered by
// slot_offset. `destinations` is copy_operation::destinations. If `has_kernels` is false, the
// device cannot run kernels, so each small copy has its own call. Throws std::bad_alloc.
void plan_transfer(std::span<const copy_op> copies, std::span<std::byte* const> destinations,
                   bool has_kernels, transfer& plan);

// Returns true if the copy has its own driver call, and false if the copy may share a call with
// other small copies. `copy` must not convert or reorder bytes.
inline bool is_worth_a_copy(const copy_op& copy, std::size_t copies_of_slot) noexcept {
  return copy.bytes >= call_worth_bytes || copies_of_slot < scattered_copies_min;
}

// A part of a copy for a kernel or driver call: at most `bytes_max` bytes, and whole elements.
struct copy_part {
  std::uint32_t slot_offset;
  std::uint32_t bytes;
  // Distance from the destination of the copy to the destination of the part.
  std::uint64_t landed_offset;
};

// Calls `work` for each part until a call fails. Returns the result of the last call.
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
