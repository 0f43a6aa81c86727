// SPDX-License-Identifier: Apache-2.0
#include "device/cuda/copier.hpp"

#include <boost/asio/post.hpp>
#include <new>
#include <utility>

#include "core/retry_allocation.hpp"
#include "device/cuda/boxes.hpp"
#include "device/cuda/kernels.hpp"
#include "device/cuda/pinned.hpp"
#include "device/cuda/runtime.hpp"

namespace ringload::inline v0::cuda {

using boost::system::error_code;

copier::copier(boost::asio::io_context& loop, const pinned& slots, const allocation_log& log)
    : loop_(loop),
      slots_(slots),
      log_(log),
      waiter_(loop, [this](error_code failed) { came(failed); }) {}

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

// Throws std::bad_alloc, and has launched nothing then.
void copier::begin(copy_operation& op) {
  if (lost_) {
    answer_later(op, lost_);
    return;
  }
  plan_transfer(op.copies, how_);
  boxes_.clear();
  add_boxes(op, how_.boxed, boxes_);
  const bool scatters = !how_.staged.empty();
  lane& on = lanes_[(scatters ? lanes_of_a_kind : 0) + next_lane_++ % lanes_of_a_kind];
  if (!on.is_open()) {
    if (auto failed = on.open()) {
      answer_later(op, failed);
      return;
    }
  }
  if (scatters) on.take_staging(how_, log_);
  event ended;
  if (auto failed = take_event(ended)) {
    answer_later(op, failed);
    return;
  }
  on.running.push_back({&op, std::move(ended), {}, begun_++});
  lane::under_way& mine = on.running.back();

  // What was launched before a failure still reads the slot, so the event is recorded either way,
  // and the failure told when it has come.
  mine.failed = on.launch(op, how_, boxes_, slots_.on_device(op.slot));
  if (auto failed = on.record(mine.ended)) {
    if (mine.failed) failed = mine.failed;
    on.running.pop_back();
    lost_ = on.wait_out();
    answer_later(op, failed);
    return;
  }
  wait_for_oldest();
}

error_code copier::take_event(event& one) {
  if (!free_events_.empty()) {
    one = std::move(free_events_.back());
    free_events_.pop_back();
    return {};
  }
  // Room for every event there is, this one too: giving one back then never allocates.
  std::size_t count = 1;
  for (const lane& each : lanes_) count += each.running.size();
  free_events_.reserve(count);
  return one.make();
}

void copier::wait_for_oldest() noexcept {
  if (waited_for_ || looking_) return;
  for (lane& each : lanes_) {
    if (each.running.empty()) continue;
    if (!waited_for_ || each.running.front().number < waited_for_->running.front().number) {
      waited_for_ = &each;
    }
  }
  if (waited_for_) waiter_.wait(waited_for_->running.front().ended);
}

void copier::came(error_code failed) {
  lane* const of = std::exchange(waited_for_, nullptr);
  looking_ = true;
  for (lane& each : lanes_) look_at(each, &each == of ? failed : error_code());
  looking_ = false;
  wait_for_oldest();
}

// Answers for the copies that have ended. Who is answered may start the next one, which goes to the
// end of a lane and has its own turn.
void copier::look_at(lane& at, error_code wait_failed) {
  for (std::size_t left = at.running.size(); left > 0 && !at.running.empty(); --left) {
    const cudaError_t said = cudaEventQuery(at.running.front().ended.get());
    auto failed = code_of(said);
    if (said == cudaErrorNotReady && !wait_failed) return;
    if (said == cudaErrorNotReady) failed = std::exchange(wait_failed, {});
    if (failed) {
      (void)take_device();  // Who was answered may have begun a copy to another.
      lost_ = at.wait_out();
    }
    lane::under_way first = std::move(at.running.front());
    at.running.pop_front();
    free_events_.push_back(std::move(first.ended));
    first.op->done(*first.op, first.failed ? first.failed : failed);
  }
}

void copier::answer_later(copy_operation& op, error_code failed) {
  retry_allocation([&] { boost::asio::post(loop_, [&op, failed] { op.done(op, failed); }); });
}

}  // namespace ringload::inline v0::cuda
