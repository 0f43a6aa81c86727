// SPDX-License-Identifier: Apache-2.0
#pragma once

// A copy stream is a CUDA stream with a staging buffer for kernels, and the list of copies that run
// on the stream. Used by `copier` and `upload_rooms`.
//
// Slots (I/O buffers) use the staging buffer one after another. The stream runs its work in order,
// so the copy of the next slot into the buffer starts only after the kernel of the previous slot.

#include <cstdint>
#include <deque>
#include <span>

#include "device/backend.hpp"
#include "device/cuda/kernels.hpp"
#include "device/cuda/raii.hpp"
#include "device/cuda/scatter_plan.hpp"

namespace ringload::inline v0::cuda {

class copy_stream {
 public:
  // Maximum number of bytes that one driver call copies. A copy occupies the bus until its end, so
  // this maximum limits the delay of a later, urgent copy to 0.3 ms.
  static constexpr std::uint32_t copy_bytes_max = std::uint32_t{16} << 20;

  struct under_way {
    copy_operation* op;
    event ended;
    boost::system::error_code failed;  // The error if a part of the copy could not be launched.
    std::uint64_t number;              // Launch order across all copy streams.
  };

  bool is_open() const noexcept { return static_cast<bool>(stream_); }
  boost::system::error_code open() { return stream_.open(); }

  // Allocates a staging buffer with the size of a slot, so that the buffer never grows. A growing
  // buffer would call cudaFree in the engine thread, and cudaFree may wait for kernels of the
  // program. If the device has no memory for the buffer, kernels read the slots directly. If the
  // kernels cannot read a slot, launch() tries again to allocate the buffer.
  void take_staging(std::size_t slot_bytes, const allocation_log& log) {
    staging_bytes_ = slot_bytes;
    log_ = log;
    (void)staging_.take(staging_bytes_, log_);
  }

  // Launches the copies of a slot on the stream. `slot_on_device` is the device address of the
  // slot, or null if kernels cannot read the slot. `boxes` must be the result of add_boxes() for
  // `slot_transfer.boxed`. After a failure, work that was launched earlier may still read the slot.
  boost::system::error_code launch(const copy_operation& op, const transfer& slot_transfer,
                                   std::span<const box_piece> boxes,
                                   const std::byte* slot_on_device);

  boost::system::error_code record(event& ended) { return ended.record(stream_.get()); }

  // Blocks until no work runs on the stream. If this function fails, work may still be running.
  boost::system::error_code wait_out() { return code_of(cudaStreamSynchronize(stream_.get())); }

  std::deque<under_way> running;  // In stream order. A slot has at most one entry.

 private:
  boost::system::error_code copy_direct(const copy_operation& op, const copy_op& copy);
  boost::system::error_code scatter(const copy_operation& op, const transfer& slot_transfer,
                                    const std::byte* from);
  boost::system::error_code copy_boxes(const copy_operation& op, std::span<const box_piece> boxes,
                                       const std::byte* from);

  stream stream_;
  device_buffer staging_;
  std::size_t staging_bytes_ = 0;
  allocation_log log_;
};

}  // namespace ringload::inline v0::cuda
