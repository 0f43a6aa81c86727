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
  for (copy_stream& each : streams_->direct) {
    if (auto failed = open_stream(*direct_, each)) return failed;
  }
  const cudaError_t loaded = load_kernels();
  const auto failed = code_of(loaded);
  if (!lacks_kernels(loaded)) return failed;
  no_kernels_ = failed;
  return {};
}

error_code copier::open_stream(copy_kind& kind, copy_stream& closed_stream) {
  if (auto failed = kind.waiter.open(device_)) return failed;
  if (auto failed = closed_stream.open()) return failed;
  if (&kind == &*scattered_) closed_stream.take_staging(slots_.slot_bytes(), log_);
  return {};
}

error_code copier::take_device() const noexcept {
  return shares_thread_ ? code_of(cudaSetDevice(device_)) : error_code();
}

void copier::start(copy_operation& op) noexcept {
  try {
    if (auto failed = take_device()) {
      complete_later(op, failed);
      return;
    }
    begin(op);
  } catch (const std::bad_alloc&) {
    complete_later(op, errc::memory_exceeded);
  }
}

// Throws std::bad_alloc, but only before any work is launched.
void copier::begin(copy_operation& op) {
  if (device_failure_) {
    complete_later(op, device_failure_);
    return;
  }
  plan_transfer(op.copies, op.destinations, !no_kernels_, transfer_);
  boxes_.clear();
  add_boxes(op, transfer_.boxed, boxes_);
  const bool scatters = !transfer_.staged.empty();
  if (scatters && no_kernels_) {
    complete_later(op, no_kernels_);
    return;
  }
  copy_kind& kind = scatters ? *scattered_ : *direct_;
  copy_stream& target_stream = kind.all[kind.next_stream++ % streams_of_a_kind];
  if (!target_stream.is_open()) {
    if (auto failed = open_stream(kind, target_stream)) {
      complete_later(op, failed);
      return;
    }
  }
  event ended;
  if (auto failed = take_event(ended)) {
    complete_later(op, failed);
    return;
  }
  target_stream.running.push_back({&op, std::move(ended), {}, launch_count_++});
  copy_stream::under_way& pending = target_stream.running.back();

  // The event is recorded even after a failure, because work that was launched earlier still reads
  // the slot. The failure is reported when the event has completed.
  pending.failed = target_stream.launch(op, transfer_, boxes_,
                                        op.on_device ? op.slot : slots_.on_device(op.slot));
  if (auto failed = target_stream.record(pending.ended)) {
    if (pending.failed) failed = pending.failed;
    target_stream.running.pop_back();
    drain(target_stream);
    complete_later(op, failed);
    return;
  }
  wait_for_oldest(kind);
}

// Waits until the device has ended the work of the copy stream. If the wait fails, sets
// `device_failure_`, unless another copy stream has set `device_failure_` before.
void copier::drain(copy_stream& failed_stream) noexcept {
  const auto failed = failed_stream.wait_out();
  if (!device_failure_) device_failure_ = failed;
}

error_code copier::take_event(event& free_event) {
  if (!streams_->free_events.empty()) {
    free_event = std::move(streams_->free_events.back());
    streams_->free_events.pop_back();
    return {};
  }
  // Reserves space in the list for all events, so that putting an event back never allocates.
  std::size_t count = 1;
  for (const copy_streams* kind : {&streams_->direct, &streams_->scattered}) {
    for (const copy_stream& stream_in_use : *kind) count += stream_in_use.running.size();
  }
  streams_->free_events.reserve(count);
  return free_event.make();
}

void copier::wait_for_oldest(copy_kind& kind) noexcept {
  if (kind.waited_for || kind.is_completing) return;
  for (copy_stream& candidate : kind.all) {
    if (candidate.running.empty()) continue;
    if (!kind.waited_for ||
        candidate.running.front().number < kind.waited_for->running.front().number) {
      kind.waited_for = &candidate;
    }
  }
  if (kind.waited_for) kind.waiter.wait(kind.waited_for->running.front().ended);
}

void copier::event_ended(copy_kind& kind, error_code failed) {
  // A completion handler may throw std::bad_alloc. The other copies must complete nevertheless.
  struct completion {
    copy_kind& kind;
    ~completion() {
      kind.is_completing = false;
      wait_for_oldest(kind);
    }
  };
  copy_stream* const waited_stream = std::exchange(kind.waited_for, nullptr);
  kind.is_completing = true;
  const completion at_end = {kind};
  for (copy_stream& candidate : kind.all) {
    complete_ended(candidate, &candidate == waited_stream ? failed : error_code());
  }
}

// Completes the copies that have ended. A completion handler may start another copy. That copy is
// appended to a copy stream and completes later. A copy is removed before its handler is called,
// because the handler may throw.
void copier::complete_ended(copy_stream& ended_stream, error_code wait_failed) {
  for (std::size_t left = ended_stream.running.size(); left > 0 && !ended_stream.running.empty();
       --left) {
    const cudaError_t state = cudaEventQuery(ended_stream.running.front().ended.get());
    auto failed = code_of(state);
    if (state == cudaErrorNotReady && !wait_failed) return;
    if (state == cudaErrorNotReady) failed = std::exchange(wait_failed, {});
    if (failed) {
      (void)take_device();  // The handler of the previous copy may have selected another device.
      drain(ended_stream);
    }
    copy_stream::under_way first = std::move(ended_stream.running.front());
    ended_stream.running.pop_front();
    streams_->free_events.push_back(std::move(first.ended));
    first.op->done(*first.op, first.failed ? first.failed : failed);
  }
}

void copier::complete_later(copy_operation& op, error_code failed) {
  retry_allocation([&] { boost::asio::post(loop_, [&op, failed] { op.done(op, failed); }); });
}

}  // namespace ringload::inline v0::cuda
