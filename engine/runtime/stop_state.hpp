// SPDX-License-Identifier: Apache-2.0
#pragma once

// The end of a load: whether the load was stopped, the cause, and whether the load is over. Set in
// the engine thread. stopped() and finished() may be called from any thread.

#include <atomic>
#include <exception>
#include <new>
#include <utility>

#include "base/fault.hpp"

namespace ringload::inline v0::detail {

class stop_state {
 public:
  // Keeps the first cause. Does nothing once the load is finished.
  void stop(fault cause) noexcept {
    if (stopped_ || finished_) return;
    stopped_ = true;
    cause_ = std::move(cause);
  }
  void finish() noexcept { finished_ = true; }

  bool stopped() const noexcept { return stopped_; }
  const std::atomic<bool>& stop_flag() const noexcept { return stopped_; }
  bool finished() const noexcept { return finished_; }

  // The cause of the stop. Engine thread.
  const fault& cause() const noexcept { return cause_; }
  // The cause of the stop as a new exception, or null if the load was not stopped. Engine thread.
  std::exception_ptr failure() const noexcept {
    if (!stopped_) return nullptr;
    try {
      return to_exception(cause_);
    } catch (const std::bad_alloc&) {
      return std::make_exception_ptr(std::bad_alloc());
    }
  }

 private:
  std::atomic<bool> stopped_ = false;
  std::atomic<bool> finished_ = false;
  fault cause_;
};

}  // namespace ringload::inline v0::detail
