// SPDX-License-Identifier: Apache-2.0
#include "device/cuda/lane.hpp"

#include <algorithm>
#include <bit>

#include "device/cuda/kernels.hpp"

namespace ringload::inline v0::cuda {

using boost::system::error_code;

namespace {

constexpr std::size_t staging_bytes_min = std::size_t{1} << 20;

}  // namespace

void lane::take_staging(const transfer& how) {
  std::size_t needed = staging_bytes_min;
  for (const slot_range& range : how.staged) needed = std::max<std::size_t>(needed, range.end);
  if (needed <= staging_bytes_) return;
  // A power of two, as slots are: with the first large slot it has its final size.
  staging_bytes_ = std::bit_ceil(needed);
  if (staging_.data()) (void)wait_out();
  staging_.give_back();
  (void)staging_.take(staging_bytes_);
}

error_code lane::launch(const copy_operation& op, const transfer& how,
                        const std::byte* slot_on_device) {
  const bool mapped = std::any_of(op.copies.begin(), op.copies.end(),
                                  [](const copy_op& one) { return one.map != no_index; });
  if (mapped) return code_of(cudaErrorNotSupported);
  for (const copy_op& one : how.direct) {
    if (auto failed = copy_direct(op, one)) return failed;
  }
  if (how.scattered.empty()) return {};
  std::byte* const staging = staging_.data();
  if (!staging) {
    if (slot_on_device) return scatter(op, how, slot_on_device);
    return code_of(cudaErrorMemoryAllocation);
  }
  for (const slot_range& range : how.staged) {
    auto failed =
        code_of(cudaMemcpyAsync(staging + range.begin, op.slot + range.begin,
                                range.end - range.begin, cudaMemcpyHostToDevice, on_.get()));
    if (failed) return failed;
  }
  return scatter(op, how, staging);
}

error_code lane::copy_direct(const copy_operation& op, const copy_op& one) {
  return for_each_part<error_code>(one, copy_bytes_max, [&](const copy_part& part) {
    return code_of(cudaMemcpyAsync(op.destination(one) + part.landed_offset,
                                   op.slot + part.slot_offset, part.bytes, cudaMemcpyHostToDevice,
                                   on_.get()));
  });
}

// `from` has every byte at the offset that it has in the slot.
error_code lane::scatter(const copy_operation& op, const transfer& how, const std::byte* from) {
  scatter_table table = {};
  for (const copy_op& one : how.scattered) {
    const std::uint32_t element_bytes = one.as.needed() ? one.as.from_bytes() : 1;
    auto failed = for_each_part<error_code>(
        one, scatter_piece::bytes_max, [&](const copy_part& part) -> error_code {
          if (table.count == scatter_table::pieces_max) {
            if (auto refused = code_of(launch_scatter(table, on_.get()))) return refused;
            table.count = 0;
          }
          table.pieces[table.count++] = {from + part.slot_offset,
                                         op.destination(one) + part.landed_offset,
                                         part.bytes / element_bytes, one.as};
          return {};
        });
    if (failed) return failed;
  }
  return code_of(launch_scatter(table, on_.get()));
}

}  // namespace ringload::inline v0::cuda
