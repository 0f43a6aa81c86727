// SPDX-License-Identifier: Apache-2.0
#include "device/cuda/copier.hpp"

#include <boost/asio/post.hpp>
#include <new>
#include <utility>

#include "base/retry_allocation.hpp"
#include "device/cuda/kernels.hpp"
#include "device/cuda/pinned.hpp"
#include "device/cuda/runtime.hpp"
#include "device/cuda/strided_pieces.hpp"

namespace ringload::inline v0::cuda {

using boost::system::error_code;

copier::copier(boost::asio::io_context& loop, const pinned& slots, const allocation_log& log)
    : loop_(loop),
      slots_(slots),
      log_(log),
      waiter_(loop, [this](error_code failed) { event_ended(failed); }) {}

error_code copier::open(int device, bool shares_thread) {
  device_ = device;
  shares_thread_ = shares_thread;
  for (std::size_t i = 0; i < lanes_of_a_kind; ++i) {
    if (auto failed = lanes_[i].open()) return failed;
  }
  if (auto failed = code_of(load_kernels())) return failed;
  return waiter_.open(device);
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

// Throws std::bad_alloc before anything is launched.
void copier::begin(copy_operation& op) {
  if (lost_) {
    answer_later(op, lost_);
    return;
  }
  plan_transfer(op.copies, transfer_);
  boxes_.clear();
  add_boxes(op, transfer_.boxed, boxes_);
  const bool scatters = !transfer_.staged.empty();
  lane& stream_lane = lanes_[(scatters ? lanes_of_a_kind : 0) + next_lane_++ % lanes_of_a_kind];
  if (!stream_lane.is_open()) {
    if (auto failed = stream_lane.open()) {
      answer_later(op, failed);
      return;
    }
  }
  if (scatters) stream_lane.take_staging(transfer_, log_);
  event ended;
  if (auto failed = take_event(ended)) {
    answer_later(op, failed);
    return;
  }
  stream_lane.running.push_back({&op, std::move(ended), {}, begun_++});
  lane::under_way& pending = stream_lane.running.back();

  // Work that was launched before a failure still reads the slot. So the event is recorded in any
  // case, and the failure is reported when the event has completed.
  pending.failed = stream_lane.launch(op, transfer_, boxes_, slots_.on_device(op.slot));
  if (auto failed = stream_lane.record(pending.ended)) {
    if (pending.failed) failed = pending.failed;
    stream_lane.running.pop_back();
    lost_ = stream_lane.wait_out();
    answer_later(op, failed);
    return;
  }
  wait_for_oldest();
}

error_code copier::take_event(event& free_event) {
  if (!free_events_.empty()) {
    free_event = std::move(free_events_.back());
    free_events_.pop_back();
    return {};
  }
  // Reserves room for every event including this one, so that returning an event never allocates.
  std::size_t count = 1;
  for (const lane& lane_in_use : lanes_) count += lane_in_use.running.size();
  free_events_.reserve(count);
  return free_event.make();
}

void copier::wait_for_oldest() noexcept {
  if (waited_for_ || completing_) return;
  for (lane& candidate : lanes_) {
    if (candidate.running.empty()) continue;
    if (!waited_for_ || candidate.running.front().number < waited_for_->running.front().number) {
      waited_for_ = &candidate;
    }
  }
  if (waited_for_) waiter_.wait(waited_for_->running.front().ended);
}

void copier::event_ended(error_code failed) {
  lane* const waited_lane = std::exchange(waited_for_, nullptr);
  completing_ = true;
  for (lane& candidate : lanes_)
    complete_ended(candidate, &candidate == waited_lane ? failed : error_code());
  completing_ = false;
  wait_for_oldest();
}

// Completes the copies that have ended. A completion handler may start another copy, which is
// appended to a lane and completes later.
void copier::complete_ended(lane& ended_lane, error_code wait_failed) {
  for (std::size_t left = ended_lane.running.size(); left > 0 && !ended_lane.running.empty();
       --left) {
    const cudaError_t state = cudaEventQuery(ended_lane.running.front().ended.get());
    auto failed = code_of(state);
    if (state == cudaErrorNotReady && !wait_failed) return;
    if (state == cudaErrorNotReady) failed = std::exchange(wait_failed, {});
    if (failed) {
      (void)take_device();  // The handler of the previous copy may have selected another device.
      lost_ = ended_lane.wait_out();
    }
    lane::under_way first = std::move(ended_lane.running.front());
    ended_lane.running.pop_front();
    free_events_.push_back(std::move(first.ended));
    first.op->done(*first.op, first.failed ? first.failed : failed);
  }
}

void copier::answer_later(copy_operation& op, error_code failed) {
  retry_allocation([&] { boost::asio::post(loop_, [&op, failed] { op.done(op, failed); }); });
}

}  // namespace ringload::inline v0::cuda
