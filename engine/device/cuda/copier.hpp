// SPDX-License-Identifier: Apache-2.0
#pragma once

// Puts the copies of slots on streams, and tells the engine thread when each has ended.
//
// A thread sleeps on the event of the oldest copy that is under way, never on more than one. When
// it has come, the events of all are looked at: under load one wake-up answers for several copies.
//
// Everything runs in the engine thread.

#include <array>
#include <boost/asio/io_context.hpp>
#include <boost/system/error_code.hpp>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "device/backend.hpp"
#include "device/cuda/event_waiter.hpp"
#include "device/cuda/lane.hpp"
#include "device/cuda/transfer.hpp"

namespace ringload::inline v0::cuda {

class pinned;

class copier {
 public:
  // One stream fills a link. The second keeps it busy while the first passes from one copy to the
  // next. Slots with something to scatter have two of their own, so that the kernels of one run
  // beside the copies of the other. A device has few hardware queues, 8 unless the program asks for
  // more, so these two are opened when they are first needed.
  static constexpr std::size_t lanes_of_a_kind = 2;
  static constexpr std::size_t lanes_count = 2 * lanes_of_a_kind;

  // The slots live as long as this, and are pinned if they can be.
  copier(boost::asio::io_context& loop, const pinned& slots, const allocation_log& log);
  copier(const copier&) = delete;
  copier& operator=(const copier&) = delete;
  ~copier() = default;

  // Makes what every load needs, on the device of that number, which is the current one. Where the
  // engine thread has other devices too, it is made the current one again for each copy.
  boost::system::error_code open(int device, bool shares_thread);

  void start(copy_operation& op) noexcept;

 private:
  boost::system::error_code take_device() const noexcept;
  void begin(copy_operation& op);
  boost::system::error_code take_event(event& one);
  void wait_for_oldest() noexcept;
  void came(boost::system::error_code failed);
  void look_at(lane& at, boost::system::error_code wait_failed);
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
  // Of the slot at hand: kept, so that a slot full of copies allocates nothing.
  transfer how_;
  std::vector<box_piece> boxes_;
  lane* waited_for_ = nullptr;  // The thread sleeps on the first event of this lane.
  bool looking_ = false;
  // Set once the device has failed in a way that leaves no knowing whether it has let go of a slot.
  // Nothing is started any more then: whatever an old copy still does, it does to loads that have
  // failed. Copies that are under way are answered for one by one, as their events say.
  boost::system::error_code lost_;
  event_waiter waiter_;  // Ends first: it holds an event.
};

}  // namespace ringload::inline v0::cuda
