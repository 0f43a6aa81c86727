// SPDX-License-Identifier: Apache-2.0
#pragma once

// Limits how many bytes are in flight: in the reads from one drive, or in the writes of a loader.
// Before a read or a write starts, its coroutine waits in acquire() until the bytes fit into the
// limit. Reads that an operation of the caller waits for are admitted before all other reads.
// Engine thread only, except bytes_max().

#include <boost/asio/awaitable.hpp>
#include <cstdint>
#include <optional>
#include <ringload/options.hpp>

#include "runtime/mount_model.hpp"
#include "runtime/queue_depth_tuner.hpp"
#include "runtime/read_pace.hpp"
#include "runtime/wait_queue.hpp"

namespace ringload::inline v0::detail {

// Returns the option `bytes_in_flight` if the option is not 0. Otherwise returns the start value of
// the queue_depth_tuner, which adjusts the limit.
std::uint64_t first_bytes_in_flight(const loader_options& options) noexcept;

class admission_control {
 public:
  using clock = queue_depth_tuner::clock;

  // If the loader tunes the limit, the limit can grow to the bytes of loader_options::slots slots.
  // `slots_max` is 0 for a drive of this machine. For a distant mount, the limit starts with all
  // slots, a mount_model may raise the limit to `slots_max` slots, and a read_pace finds late
  // reads.
  admission_control(boost::asio::io_context& loop, const loader_options& options,
                    std::uint32_t slots_max = 0);

  boost::asio::awaitable<void> acquire(std::uint64_t bytes, bool awaited);
  // `time` is the duration of a read, for the mount_model. Without `time`, the model ignores the
  // read.
  void release(std::uint64_t bytes, std::optional<clock::duration> time = std::nullopt);
  // Releases the bytes of a read that has ended now.
  void release(const read_pace::started_read& read);

  // Describes a read that acquire() has just admitted.
  read_pace::started_read start_read(std::uint64_t bytes) const noexcept {
    const std::uint64_t before = bytes_in_flight_ - bytes;
    return pace_ ? pace_->start(bytes, before, clock::now())
                 : read_pace::started_read{bytes, before, clock::now()};
  }
  // True if late reads may be issued again.
  bool finds_late_reads() const noexcept { return pace_.has_value(); }
  // See read_pace. Must not be called if finds_late_reads() returns false.
  std::optional<clock::time_point> late_at(const read_pace::started_read& read) const noexcept {
    return pace_->late_at(read);
  }
  std::optional<clock::time_point> check_at(const read_pace::started_read& read,
                                            clock::time_point now) const noexcept {
    return pace_->check_at(read, now);
  }

  // Returns the present limit. A read that is larger than the limit is admitted when no other read
  // is in flight. May be called from any thread.
  std::uint64_t bytes_max() const noexcept { return tuner_ ? tuner_->bytes() : fixed_bytes_max_; }

 private:
  bool can_admit(std::uint64_t bytes) const noexcept {
    return bytes_in_flight_ == 0 || bytes_in_flight_ + bytes <= bytes_max();
  }
  void admit_waiting();

  wait_queue awaited_;
  wait_queue unawaited_;
  const std::uint64_t fixed_bytes_max_;  // If 0, the tuner adjusts the limit.
  std::optional<queue_depth_tuner> tuner_;
  std::optional<mount_model> mount_;
  std::optional<read_pace> pace_;  // Only for a distant mount.
  // May exceed bytes_max() during a single larger read, or after the tuner has lowered the limit.
  std::uint64_t bytes_in_flight_ = 0;
};

// RAII guard. Its destructor releases the bytes that acquire() has added.
class admission_guard {
 public:
  admission_guard(admission_control& admission, std::uint64_t bytes, bool awaited) noexcept
      : admission_(admission), bytes_(bytes), awaited_(awaited) {}
  admission_guard(const admission_guard&) = delete;
  admission_guard& operator=(const admission_guard&) = delete;
  ~admission_guard() {
    if (started_) admission_.release(*started_);
  }

  boost::asio::awaitable<void> acquire() {
    admission_control& admission = admission_;
    co_await admission.acquire(bytes_, awaited_);
    started_ = admission.start_read(bytes_);
  }

  admission_control& admission() const noexcept { return admission_; }
  // Must not be called before acquire() has returned.
  const read_pace::started_read& started() const noexcept { return *started_; }

  // Sets the read whose time is measured. If the read was issued again, `fastest` must be the
  // fastest of the issued reads.
  void set_measured(const read_pace::started_read& fastest) noexcept {
    started_ = fastest;
    started_->bytes = bytes_;
  }

 private:
  admission_control& admission_;
  const std::uint64_t bytes_;
  const bool awaited_;
  std::optional<read_pace::started_read> started_;
};

}  // namespace ringload::inline v0::detail
