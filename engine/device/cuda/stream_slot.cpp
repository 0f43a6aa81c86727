// SPDX-License-Identifier: Apache-2.0

#include "device/cuda/stream_slot.hpp"

#include "device/cuda/kernels.hpp"

namespace ringload::inline v0::cuda {

using boost::system::error_code;

error_code copy_stream::launch(const copy_operation& op, const transfer& slot_transfer,
                               std::span<const box_piece> boxes, const std::byte* slot_on_device) {
  for (const copy_op& copy : slot_transfer.direct) {
    if (auto failed = copy_direct(op, copy)) return failed;
  }
  if (slot_transfer.staged.empty()) return {};
  if (!staging_.data() && !slot_on_device) {
    if (auto failed = staging_.take(staging_bytes_, log_)) return failed;
  }
  // A slot in device memory needs no staging, because kernels read the slot directly.
  std::byte* const staging = op.on_device ? nullptr : staging_.data();
  const std::byte* const from = staging ? staging : slot_on_device;
  for (std::size_t i = 0; staging && i < slot_transfer.staged.size(); ++i) {
    const slot_range& range = slot_transfer.staged[i];
    auto failed =
        code_of(cudaMemcpyAsync(staging + range.begin, op.slot + range.begin,
                                range.end - range.begin, cudaMemcpyHostToDevice, stream_.get()));
    if (failed) return failed;
  }
  if (auto failed = copy_boxes(op, boxes, from)) return failed;
  return scatter(op, slot_transfer, from);
}

error_code copy_stream::copy_direct(const copy_operation& op, const copy_op& copy) {
  const cudaMemcpyKind kind = op.peer        ? cudaMemcpyDefault
                              : op.on_device ? cudaMemcpyDeviceToDevice
                                             : cudaMemcpyHostToDevice;
  return for_each_part<error_code>(copy, copy_bytes_max, [&](const copy_part& part) {
    return code_of(cudaMemcpyAsync(op.destination(copy) + part.landed_offset,
                                   op.slot + part.slot_offset, part.bytes, kind, stream_.get()));
  });
}

// `from` is the device address of the staging buffer, or of the slot if nothing is staged.
error_code copy_stream::scatter(const copy_operation& op, const transfer& slot_transfer,
                                const std::byte* from) {
  if (slot_transfer.scattered.empty()) return {};
  scatter_table table = {};
  for (const copy_op& copy : slot_transfer.scattered) {
    const std::uint32_t element_bytes = copy.cast.needed() ? copy.cast.from_bytes() : 1;
    auto failed = for_each_part<error_code>(
        copy, scatter_piece::bytes_max, [&](const copy_part& part) -> error_code {
          if (table.count == scatter_table::pieces_max) {
            if (auto refused = code_of(launch_scatter(table, stream_.get()))) return refused;
            table.count = 0;
          }
          table.pieces[table.count++] = {from + part.slot_offset,
                                         op.destination(copy) + part.landed_offset,
                                         part.bytes / element_bytes, copy.cast};
          return {};
        });
    if (failed) return failed;
  }
  return code_of(launch_scatter(table, stream_.get()));
}

error_code copy_stream::copy_boxes(const copy_operation& op, std::span<const box_piece> boxes,
                                   const std::byte* from) {
  box_table table = {};
  for (const box_piece& piece : boxes) {
    table.pieces[table.count] = piece;
    table.pieces[table.count++].from = from + (static_cast<const std::byte*>(piece.from) - op.slot);
    if (table.count < box_table::pieces_max) continue;
    if (auto refused = code_of(launch_boxes(table, stream_.get()))) return refused;
    table.count = 0;
  }
  return table.count == 0 ? error_code() : code_of(launch_boxes(table, stream_.get()));
}

}  // namespace ringload::inline v0::cuda
