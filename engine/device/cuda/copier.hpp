// SPDX-License-Identifier: Apache-2.0
#pragma once

// Starts the copies of slots (I/O buffers) on CUDA streams, and notifies the engine thread when the
// copies of a slot have ended. Used by the CUDA backend. All functions run in the engine thread. A
// copy stream is a CUDA stream with its staging buffer: see stream_slot.hpp.
//
// There are two kinds of copies: copies that need a kernel, and copies that need no kernel. Each
// kind has its own streams, because a kernel may wait for kernels of the program, possibly forever.
// Each kind also has a thread that sleeps until the oldest running copy of the kind has ended. The
// engine thread then queries the events of all copies of the kind, so one wake-up can complete
// several copies.

#include <array>
#include <boost/asio/io_context.hpp>
#include <boost/system/error_code.hpp>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "device/backend.hpp"
#include "device/cuda/event_waiter.hpp"
#include "device/cuda/scatter_plan.hpp"
#include "device/cuda/stream_slot.hpp"

namespace ringload::inline v0::cuda {

class pinned;

class copier {
 public:
  // Each kind of copy has two streams: while the first stream pauses between two copies, the second
  // stream uses the bus. The kernels of one stream can also run during the copies of the other
  // stream. The streams for kernels are opened on first use, because a device has few hardware
  // queues.
  static constexpr std::size_t streams_of_a_kind = 2;

  // `slots` must outlive this object. Slots that are not pinned are copied more slowly.
  copier(boost::asio::io_context& loop, const pinned& slots, const allocation_log& log);
  copier(const copier&) = delete;
  copier& operator=(const copier&) = delete;
  // No copy may be running. A thread of the library frees the streams and their staging buffers,
  // because the release may wait for kernels of the program.
  ~copier();

  // Loads the kernels, and opens the streams for copies without kernels. `device` must be the
  // current device. `shares_thread` must be true if the engine thread also uses other devices: each
  // copy then selects its device again.
  boost::system::error_code open(int device, bool shares_thread);

  void start(copy_operation& op) noexcept;

  // If the kernels cannot run on this device, returns the reason. Copies that neither convert nor
  // reorder bytes still work. The result is constant after open().
  boost::system::error_code no_kernels() const noexcept { return no_kernels_; }

 private:
  // The copy streams of one kind of copy.
  using copy_streams = std::array<copy_stream, streams_of_a_kind>;

  struct streams {
    copy_streams direct;     // Opened by open().
    copy_streams scattered;  // Opened on first use.
    std::vector<event> free_events;
  };

  struct copy_kind {
    copy_kind(boost::asio::io_context& loop, copier& owner, copy_streams& streams_of_kind)
        : all(streams_of_kind), waiter(loop, [this, &owner](boost::system::error_code failed) {
            owner.event_ended(*this, failed);
          }) {}

    copy_streams& all;
    std::size_t next_stream = 0;
    // `waiter` waits for the first entry in `running` of this stream. Null if `waiter` is idle.
    copy_stream* waited_for = nullptr;
    bool is_completing = false;
    event_waiter waiter;
  };

  boost::system::error_code take_device() const noexcept;
  void begin(copy_operation& op);
  boost::system::error_code open_stream(copy_kind& kind, copy_stream& closed_stream);
  boost::system::error_code take_event(event& free_event);
  void drain(copy_stream& failed_stream) noexcept;
  static void wait_for_oldest(copy_kind& kind) noexcept;
  void event_ended(copy_kind& kind, boost::system::error_code failed);
  void complete_ended(copy_stream& ended_stream, boost::system::error_code wait_failed);
  void complete_later(copy_operation& op, boost::system::error_code failed);

  boost::asio::io_context& loop_;
  const pinned& slots_;
  const allocation_log log_;
  int device_ = 0;
  bool shares_thread_ = false;
  boost::system::error_code no_kernels_;
  std::uint64_t launch_count_ = 0;
  // Work lists of begin(). They are members, so that their memory is reused for the next slot.
  transfer transfer_;
  std::vector<box_piece> boxes_;
  // Set if the device has failed and may still read a slot. Afterwards, every new copy fails with
  // this error. The failed copy may still run, but writes only to memory of a failed load.
  boost::system::error_code device_failure_;
  std::unique_ptr<streams> streams_ = std::make_unique<streams>();
  // The next two members are destroyed before the streams, because a waiter refers to an event of a
  // copy stream.
  std::optional<copy_kind> direct_;
  std::optional<copy_kind> scattered_;
};

}  // namespace ringload::inline v0::cuda
