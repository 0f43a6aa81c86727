// SPDX-License-Identifier: Apache-2.0

#include "device/cuda/copier.hpp"

#include <boost/asio/post.hpp>
#include <new>
#include <utility>

#include "base/retry_allocation.hpp"
#include "device/cuda/device_memory.hpp"
#include "device/cuda/kernels.hpp"
#include "device/cuda/pinned.hpp"
#include "device/cuda/runtime.hpp"
#include "device/cuda/strided_pieces.hpp"

namespace ringload::inline v0::cuda {

using boost::system::error_code;

copier::copier(boost::asio::io_context& loop, const pinned& slots, const allocation_log& log)
    : loop_(loop), slots_(slots), log_(log) {
  direct_.emplace(loop, *this, streams_->direct);
  scattered_.emplace(loop, *this, streams_->scattered);
}

copier::~copier() {
  scattered_.reset();
  direct_.reset();
  destroy_later(device_, std::move(streams_));
}

error_code copier::open(int device, bool shares_thread) {
  device_ = device;
  shares_thread_ = shares_thread;
  for (lane& each : streams_->direct) {
    if (auto failed = open_lane(*direct_, each)) return failed;
  }
  const cudaError_t loaded = load_kernels();
  const auto failed = code_of(loaded);
  if (loaded != cudaErrorNoKernelImageForDevice) return failed;
  no_kernels_ = failed;
  return {};
}

error_code copier::open_lane(lane_kind& kind, lane& closed_lane) {
  if (auto failed = kind.waiter.open(device_)) return failed;
  if (auto failed = closed_lane.open()) return failed;
  if (&kind == &*scattered_) closed_lane.take_staging(slots_.slot_bytes(), log_);
  return {};
}

error_code copier::take_device() const noexcept {
  return shares_thread_ ? code_of(cudaSetDevice(device_)) : error_code();
}

void copier::start(copy_operation& op) noexcept {
  try {
    if (auto failed = take_device()) {
      answer_later(op, failed);
      return;
    }
    begin(op);
  } catch (const std::bad_alloc&) {
    answer_later(op, errc::memory_exceeded);
  }
}

// Throws std::bad_alloc, but only before any work is launched.
void copier::begin(copy_operation& op) {
  if (lost_) {
    answer_later(op, lost_);
    return;
  }
  plan_transfer(op.copies, op.destinations, transfer_);
  boxes_.clear();
  add_boxes(op, transfer_.boxed, boxes_);
  const bool scatters = !transfer_.staged.empty();
  if (scatters && no_kernels_) {
    answer_later(op, no_kernels_);
    return;
  }
  lane_kind& kind = scatters ? *scattered_ : *direct_;
  lane& stream_lane = kind.all[kind.next_lane++ % lanes_of_a_kind];
  if (!stream_lane.is_open()) {
    if (auto failed = open_lane(kind, stream_lane)) {
      answer_later(op, failed);
      return;
    }
  }
  event ended;
  if (auto failed = take_event(ended)) {
    answer_later(op, failed);
    return;
  }
  stream_lane.running.push_back({&op, std::move(ended), {}, begun_++});
  lane::under_way& pending = stream_lane.running.back();

  // The event is recorded even after a failure, because work that was launched earlier still reads
  // the slot. The failure is reported when the event has completed.
  pending.failed =
      stream_lane.launch(op, transfer_, boxes_, op.on_device ? op.slot : slots_.on_device(op.slot));
  if (auto failed = stream_lane.record(pending.ended)) {
    if (pending.failed) failed = pending.failed;
    stream_lane.running.pop_back();
    lose(stream_lane);
    answer_later(op, failed);
    return;
  }
  wait_for_oldest(kind);
}

// Waits until the device has ended the work of the lane. If the wait fails, sets `lost_`, unless
// another lane has set `lost_` before.
void copier::lose(lane& failed_lane) noexcept {
  const auto failed = failed_lane.wait_out();
  if (!lost_) lost_ = failed;
}

error_code copier::take_event(event& free_event) {
  if (!streams_->free_events.empty()) {
    free_event = std::move(streams_->free_events.back());
    streams_->free_events.pop_back();
    return {};
  }
  // Reserves space in the list for all events, so that putting an event back never allocates.
  std::size_t count = 1;
  for (const lanes* kind : {&streams_->direct, &streams_->scattered}) {
    for (const lane& lane_in_use : *kind) count += lane_in_use.running.size();
  }
  streams_->free_events.reserve(count);
  return free_event.make();
}

void copier::wait_for_oldest(lane_kind& kind) noexcept {
  if (kind.waited_for || kind.is_completing) return;
  for (lane& candidate : kind.all) {
    if (candidate.running.empty()) continue;
    if (!kind.waited_for ||
        candidate.running.front().number < kind.waited_for->running.front().number) {
      kind.waited_for = &candidate;
    }
  }
  if (kind.waited_for) kind.waiter.wait(kind.waited_for->running.front().ended);
}

void copier::event_ended(lane_kind& kind, error_code failed) {
  // A completion handler may throw std::bad_alloc. The other copies must complete nevertheless.
  struct completion {
    lane_kind& kind;
    ~completion() {
      kind.is_completing = false;
      wait_for_oldest(kind);
    }
  };
  lane* const waited_lane = std::exchange(kind.waited_for, nullptr);
  kind.is_completing = true;
  const completion at_end = {kind};
  for (lane& candidate : kind.all) {
    complete_ended(candidate, &candidate == waited_lane ? failed : error_code());
  }
}

// Completes the copies that have ended. A completion handler may start another copy. That copy is
// appended to a lane and completes later. A copy is removed before its handler is called, because
// the handler may throw.
void copier::complete_ended(lane& ended_lane, error_code wait_failed) {
  for (std::size_t left = ended_lane.running.size(); left > 0 && !ended_lane.running.empty();
       --left) {
    const cudaError_t state = cudaEventQuery(ended_lane.running.front().ended.get());
    auto failed = code_of(state);
    if (state == cudaErrorNotReady && !wait_failed) return;
    if (state == cudaErrorNotReady) failed = std::exchange(wait_failed, {});
    if (failed) {
      (void)take_device();  // The handler of the previous copy may have selected another device.
      lose(ended_lane);
    }
    lane::under_way first = std::move(ended_lane.running.front());
    ended_lane.running.pop_front();
    streams_->free_events.push_back(std::move(first.ended));
    first.op->done(*first.op, first.failed ? first.failed : failed);
  }
}

void copier::answer_later(copy_operation& op, error_code failed) {
  retry_allocation([&] { boost::asio::post(loop_, [&op, failed] { op.done(op, failed); }); });
}

}  // namespace ringload::inline v0::cuda
