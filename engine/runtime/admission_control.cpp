// SPDX-License-Identifier: Apache-2.0
#include "runtime/admission_control.hpp"

#include <algorithm>

namespace ringload::inline v0::detail {

std::uint64_t first_bytes_in_flight(const loader_options& options) noexcept {
  if (options.bytes_in_flight > 0) return options.bytes_in_flight;
  const std::uint64_t limit_max = options.slots * options.slot_bytes;
  return std::clamp(bytes_in_flight_at_first, std::min(limit_max, 2 * options.slot_bytes),
                    limit_max);
}

admission_control::admission_control(boost::asio::io_context& loop, const loader_options& options,
                                     std::uint32_t slots_max)
    : awaited_(loop), unawaited_(loop), fixed_bytes_max_(options.bytes_in_flight) {
  if (slots_max > 0) pace_.emplace();
  if (fixed_bytes_max_ > 0) return;
  const std::uint64_t limit_max = options.slots * options.slot_bytes;
  const std::uint64_t limit_min = std::min(limit_max, 2 * options.slot_bytes);
  // On a distant mount, some reads can stall. The limit starts with all slots, so that the other
  // reads keep the mount busy.
  const std::uint64_t start = slots_max > 0 ? limit_max : first_bytes_in_flight(options);
  tuner_.emplace(limit_min, start, limit_max, slots_max * options.slot_bytes);
  if (slots_max > 0) mount_.emplace();
}

boost::asio::awaitable<void> admission_control::acquire(std::uint64_t bytes, bool awaited) {
  wait_queue& queue = awaited ? awaited_ : unawaited_;
  if (awaited_.empty() && queue.empty() && can_admit(bytes)) {
    bytes_in_flight_ += bytes;
    co_return;
  }
  // When wait() returns, admit_waiting() has already added `bytes` to bytes_in_flight_.
  co_await queue.wait(bytes);
}

void admission_control::release(std::uint64_t bytes, std::optional<clock::duration> time) {
  const bool is_full = bytes_in_flight_ + bytes > bytes_max();
  bytes_in_flight_ -= bytes;
  const bool idle = bytes_in_flight_ == 0 && awaited_.empty() && unawaited_.empty();
  if (tuner_) tuner_->completed(bytes, clock::now(), idle);
  const bool is_modelled = mount_ && time && tuner_->can_raise();
  if (is_modelled && mount_->completed(bytes, *time, tuner_->bytes(), is_full)) tuner_->raise();
  admit_waiting();
}

void admission_control::release(const read_pace::started_read& read) {
  const clock::time_point now = clock::now();
  if (pace_) pace_->completed(read, now);
  release(read.bytes, now - read.started_at);
}

void admission_control::admit_waiting() {
  for (;;) {
    wait_queue& queue = awaited_.empty() ? unawaited_ : awaited_;
    if (queue.empty() || !can_admit(queue.front_weight())) return;
    bytes_in_flight_ += queue.front_weight();
    queue.wake_one();
  }
}

}  // namespace ringload::inline v0::detail
