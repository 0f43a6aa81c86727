// SPDX-License-Identifier: Apache-2.0
#pragma once

// Records whether a load or save was stopped, why it was stopped, and whether it has finished.
// Only the engine thread modifies the state. stopped() and finished() are thread-safe.

#include <atomic>
#include <utility>

#include "base/fault.hpp"

namespace ringload::inline v0::detail {

class stop_state {
 public:
  // Records the first cause, and ignores later causes. Does nothing if the load or save has
  // finished.
  void stop(fault cause) noexcept {
    if (stopped_ || finished_) return;
    stopped_ = true;
    cause_ = std::move(cause);
  }
  void finish() noexcept { finished_ = true; }

  bool stopped() const noexcept { return stopped_; }
  const std::atomic<bool>& stop_flag() const noexcept { return stopped_; }
  bool finished() const noexcept { return finished_; }

  // Returns the cause that stop() recorded. Engine thread only.
  const fault& cause() const noexcept { return cause_; }

 private:
  std::atomic<bool> stopped_ = false;
  std::atomic<bool> finished_ = false;
  fault cause_;
};

}  // namespace ringload::inline v0::detail
