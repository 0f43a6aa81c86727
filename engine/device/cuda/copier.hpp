// SPDX-License-Identifier: Apache-2.0
#pragma once

// Launches the copies of slots on CUDA streams and notifies the engine thread when each has ended.
//
// A thread sleeps on the event of the oldest running copy, never on more than one event. When that
// event completes, all events are queried: under load one wake-up completes several copies.
//
// All functions run in the engine thread.

#include <array>
#include <boost/asio/io_context.hpp>
#include <boost/system/error_code.hpp>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "device/backend.hpp"
#include "device/cuda/event_waiter.hpp"
#include "device/cuda/scatter_plan.hpp"
#include "device/cuda/stream_slot.hpp"

namespace ringload::inline v0::cuda {

class pinned;

class copier {
 public:
  // One stream can fill a link; the second keeps the link busy while the first changes from one
  // copy to the next. Slots with scattered copies have two streams of their own, so that the
  // kernels of one run beside the copies of the other. A device has few hardware queues, 8 by
  // default, so these two streams are opened on first use.
  static constexpr std::size_t lanes_of_a_kind = 2;
  static constexpr std::size_t lanes_count = 2 * lanes_of_a_kind;

  // `slots` must outlive this object. Its slots are pinned if possible.
  copier(boost::asio::io_context& loop, const pinned& slots, const allocation_log& log);
  copier(const copier&) = delete;
  copier& operator=(const copier&) = delete;
  ~copier() = default;

  // Creates what every load needs. Device `device` must be the current one. If the engine thread
  // also uses other devices, each copy selects the device again.
  boost::system::error_code open(int device, bool shares_thread);

  void start(copy_operation& op) noexcept;

 private:
  boost::system::error_code take_device() const noexcept;
  void begin(copy_operation& op);
  boost::system::error_code take_event(event& free_event);
  void wait_for_oldest() noexcept;
  void event_ended(boost::system::error_code failed);
  void complete_ended(lane& ended_lane, boost::system::error_code wait_failed);
  void answer_later(copy_operation& op, boost::system::error_code failed);

  boost::asio::io_context& loop_;
  const pinned& slots_;
  const allocation_log log_;
  int device_ = 0;
  bool shares_thread_ = false;
  std::array<lane, lanes_count> lanes_;
  std::size_t next_lane_ = 0;
  std::uint64_t begun_ = 0;
  std::vector<event> free_events_;
  // Scratch for the current slot. It is reused, so that a slot full of copies allocates nothing.
  transfer transfer_;
  std::vector<box_piece> boxes_;
  lane* waited_for_ = nullptr;  // The thread sleeps on the first event of this lane.
  bool completing_ = false;
  // Set when the device has failed so that it may still be reading a slot. After that nothing is
  // started: whatever an old copy still writes belongs to loads that have failed. Running copies
  // complete one by one as their events say.
  boost::system::error_code lost_;
  event_waiter waiter_;  // Destroyed first, because it refers to an event.
};

}  // namespace ringload::inline v0::cuda
