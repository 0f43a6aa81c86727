// SPDX-License-Identifier: Apache-2.0
#pragma once

// How a load ends: whether it was stopped, and why; and whether it is over. Set in the engine
// thread; stopped() and finished() may be called by any.

#include <atomic>
#include <exception>
#include <new>
#include <utility>

#include "base/fault.hpp"

namespace ringload::inline v0::detail {

class stop_state {
 public:
  // The first reason is kept. Does nothing once the load is finished.
  void stop(fault why) noexcept {
    if (stopped_ || finished_) return;
    stopped_ = true;
    why_ = std::move(why);
  }
  void finish() noexcept { finished_ = true; }

  bool stopped() const noexcept { return stopped_; }
  const std::atomic<bool>& stop_flag() const noexcept { return stopped_; }
  bool finished() const noexcept { return finished_; }

  // Why it was stopped. Engine thread.
  const fault& why() const noexcept { return why_; }
  // Why it was stopped, as a new exception; null if it was not. Engine thread.
  std::exception_ptr failure() const noexcept {
    if (!stopped_) return nullptr;
    try {
      return to_exception(why_);
    } catch (const std::bad_alloc&) {
      return std::make_exception_ptr(std::bad_alloc());
    }
  }

 private:
  std::atomic<bool> stopped_ = false;
  std::atomic<bool> finished_ = false;
  fault why_;
};

}  // namespace ringload::inline v0::detail
