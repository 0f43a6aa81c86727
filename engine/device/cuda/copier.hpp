// SPDX-License-Identifier: Apache-2.0
#pragma once

// Puts the copies of slots on streams, and tells the engine thread when each is done.
//
// How the engine thread learns of it. Three ways were compared:
//   - It asks the events again and again. Between two copies of 2 MiB lie 40 us of a link that
//     carries 55 GB/s, so it would have to wake every 20 us to be in time, copy done or not.
//   - It looks at a number in pinned memory that the stream writes. The look is cheap, but nothing
//     wakes the thread for it, so it is the first way again; and the runtime has no call for it.
//   - A host function on the stream wakes it: 26 us and more after the copy, and until it has
//     returned, the copies behind it wait.
// It is the third, kept out of the copies' way: a lane has a second stream, which waits for the
// event of the lane's oldest copy and then runs the host function. That only posts to the loop.
// There is one notice on its way in each lane, never more, and a notice looks at all events, so
// under load one call answers for several copies; and a thread that has nothing to do sleeps.
//
// CUDA does not run host functions once a context is broken. So a clock looks as well, every 10 ms
// as long as something is under way: that is what ends a load then, and not what its speed needs.
//
// Everything runs in the engine thread but bell::ring().

#include <cuda_runtime_api.h>

#include <array>
#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/system/error_code.hpp>
#include <chrono>
#include <cstddef>
#include <deque>
#include <memory>
#include <vector>

#include "device/backend.hpp"

namespace ringload::inline v0::cuda {

class bell;
class pinned;

class copier {
 public:
  // One stream fills a link. The second keeps it busy while the first passes from one copy to the
  // next. Slots with something to convert have two of their own: a kernel is launched beside the
  // copies, and neither waits for the other.
  static constexpr std::size_t lanes_of_a_kind = 2;
  static constexpr std::size_t lanes_count = 2 * lanes_of_a_kind;

  // A copy holds the link from its beginning to its end: a small one that somebody waits for may
  // stand behind it for 0.3 ms, and not for longer.
  static constexpr std::size_t copy_bytes_max = std::size_t{16} << 20;

  // From this many copies in one slot on they go to the driver in a single call. A call costs 5 us,
  // which is the time that 256 KiB take.
  static constexpr std::size_t batch_copies_min = 8;

  static constexpr std::chrono::milliseconds look_every{10};

  // The slots are pinned as long as this lives.
  copier(boost::asio::io_context& loop, const pinned& slots);
  copier(const copier&) = delete;
  copier& operator=(const copier&) = delete;
  ~copier();

  // Makes the streams, in the current device.
  boost::system::error_code open();

  void start(copy_operation& op) noexcept;

 private:
  struct under_way {
    copy_operation* op;
    cudaEvent_t ended;
    boost::system::error_code failed;  // A part of it could not be launched.
  };

  struct lane {
    cudaStream_t copies = nullptr;
    cudaStream_t notices = nullptr;
    std::deque<under_way> running;  // In the order of the stream; at most one for each slot.
    bool notice_on_its_way = false;
  };

  friend class bell;

  void begin(copy_operation& op);
  boost::system::error_code take_event(cudaEvent_t& event);
  boost::system::error_code launch(const copy_operation& op, cudaStream_t on);
  boost::system::error_code launch_copies(const copy_operation& op, cudaStream_t on);
  bool launch_batch(const copy_operation& op, cudaStream_t on);
  boost::system::error_code launch_kernels(const copy_operation& op, cudaStream_t on) const;
  void ask_for_notice(lane& of);
  void noticed(std::size_t of_lane);
  void look();
  void look_at(lane& at);
  boost::system::error_code wait_out(lane& which);
  void answer_later(copy_operation& op, boost::system::error_code failed);
  void keep_watch();

  boost::asio::io_context& loop_;
  const pinned& slots_;
  boost::asio::steady_timer clock_;
  bool clock_runs_ = false;
  std::array<lane, lanes_count> lanes_;
  std::size_t next_lane_ = 0;
  std::vector<cudaEvent_t> free_events_;
  std::shared_ptr<bell> bell_;
  // Set once the device has failed in a way that leaves no knowing whether it has let go of a slot.
  // Nothing is started any more then: whatever an old copy still does, it does to loads that have
  // failed. Copies that are under way are answered for one by one, as their events say.
  boost::system::error_code lost_;

  // What a batch is described with: kept, so that a slot full of copies allocates nothing.
  bool batches_ = true;
  std::vector<void*> to_;
  std::vector<const void*> from_;
  std::vector<std::size_t> bytes_;
};

}  // namespace ringload::inline v0::cuda
