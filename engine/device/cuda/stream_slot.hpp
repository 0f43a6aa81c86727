// SPDX-License-Identifier: Apache-2.0
#pragma once

// A stream, the staging buffer of its kernels, and the running copies on it.
//
// Slots use the staging buffer one after another. The order of the stream protects it: the copy of
// the next slot into the buffer follows the kernel of the previous slot.

#include <cstdint>
#include <deque>
#include <span>

#include "device/backend.hpp"
#include "device/cuda/kernels.hpp"
#include "device/cuda/raii.hpp"
#include "device/cuda/scatter_plan.hpp"

namespace ringload::inline v0::cuda {

class lane {
 public:
  // A copy occupies the link from its beginning to its end. This limit bounds the delay of a small
  // urgent copy behind it to 0.3 ms.
  static constexpr std::uint32_t copy_bytes_max = std::uint32_t{16} << 20;

  struct under_way {
    copy_operation* op;
    event ended;
    boost::system::error_code failed;  // A part of the copy could not be launched.
    std::uint64_t number;              // Launch order over all lanes.
  };

  bool is_open() const noexcept { return static_cast<bool>(stream_); }
  boost::system::error_code open() { return stream_.open(); }

  // Allocates device memory for staged bytes unless there is enough. If the device has no memory,
  // kernels read the slots directly.
  void take_staging(const transfer& slot_transfer, const allocation_log& log);

  // Launches the copies of a slot on the stream. `slot_on_device` is the slot's device address or
  // null. `boxes` must be the result of add_boxes() for `slot_transfer.boxed`. After a failure,
  // work that was launched before still reads the slot.
  boost::system::error_code launch(const copy_operation& op, const transfer& slot_transfer,
                                   std::span<const box_piece> boxes,
                                   const std::byte* slot_on_device);

  boost::system::error_code record(event& ended) { return ended.record(stream_.get()); }

  // Blocks until no work runs on the stream. After an error the state is unknown.
  boost::system::error_code wait_out() { return code_of(cudaStreamSynchronize(stream_.get())); }

  std::deque<under_way> running;  // In stream order; at most one for each slot.

 private:
  boost::system::error_code copy_direct(const copy_operation& op, const copy_op& copy);
  boost::system::error_code scatter(const copy_operation& op, const transfer& slot_transfer,
                                    const std::byte* from);
  boost::system::error_code copy_boxes(const copy_operation& op, std::span<const box_piece> boxes,
                                       const std::byte* from);

  stream stream_;
  device_buffer staging_;
  // Requested bytes; not requested again if the device has refused them.
  std::size_t staging_bytes_ = 0;
};

}  // namespace ringload::inline v0::cuda
