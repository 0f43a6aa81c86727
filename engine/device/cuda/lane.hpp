// SPDX-License-Identifier: Apache-2.0
#pragma once

// A stream, the staging buffer that its kernels take pieces from, and the copies on it that have
// not ended.
//
// One slot after the other uses the staging buffer. The order of the stream is what guards it: the
// copy of the next slot into it comes behind the kernel of the one before.

#include <cstdint>
#include <deque>
#include <span>

#include "device/backend.hpp"
#include "device/cuda/handles.hpp"
#include "device/cuda/kernels.hpp"
#include "device/cuda/transfer.hpp"

namespace ringload::inline v0::cuda {

class lane {
 public:
  // A copy holds the link from its beginning to its end: a small one that somebody waits for may
  // stand behind it for 0.3 ms, and not for longer.
  static constexpr std::uint32_t copy_bytes_max = std::uint32_t{16} << 20;

  struct under_way {
    copy_operation* op;
    event ended;
    boost::system::error_code failed;  // A part of it could not be launched.
    std::uint64_t number;              // Of all lanes, in the order in which they were begun.
  };

  bool is_open() const noexcept { return static_cast<bool>(on_); }
  boost::system::error_code open() { return on_.open(); }

  // Takes memory of the device for what is staged, unless there is enough. Where the device has
  // none, kernels read the slots themselves.
  void take_staging(const transfer& how, const allocation_log& log);

  // Puts on the stream what brings a slot to the arena. `slot_on_device`: by the device's address,
  // or null. What was launched before a failure still reads the slot.
  // `boxes` are those of `how`, as add_boxes() makes them.
  boost::system::error_code launch(const copy_operation& op, const transfer& how,
                                   std::span<const box_piece> boxes,
                                   const std::byte* slot_on_device);

  boost::system::error_code record(event& ended) { return ended.record(on_.get()); }

  // Blocks until nothing on the stream is under way; an error says that it cannot be known.
  boost::system::error_code wait_out() { return code_of(cudaStreamSynchronize(on_.get())); }

  std::deque<under_way> running;  // In the order of the stream; at most one for each slot.

 private:
  boost::system::error_code copy_direct(const copy_operation& op, const copy_op& one);
  boost::system::error_code scatter(const copy_operation& op, const transfer& how,
                                    const std::byte* from);
  boost::system::error_code copy_boxes(const copy_operation& op, std::span<const box_piece> boxes,
                                       const std::byte* from);

  stream on_;
  device_buffer staging_;
  std::size_t staging_bytes_ = 0;  // As wanted; a device that has refused them is not asked again.
};

}  // namespace ringload::inline v0::cuda
