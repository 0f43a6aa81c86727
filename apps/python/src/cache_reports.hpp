// SPDX-License-Identifier: Apache-2.0
#pragma once

// Passes the results of writes to the local cache to a Python thread, because threads of the
// library never take the GIL.

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "operation.hpp"

namespace ringload::python {

struct cached_file {
  std::string name;
  bool whole = false;
  std::uint64_t missing_bytes = 0;
  std::string why;
};

class cache_reports {
 public:
  int descriptor() const noexcept { return waker_.descriptor(); }

  void add(cached_file one) {
    const std::lock_guard lock(mutex_);
    files_.push_back(std::move(one));
    waker_.add(0);
  }
  void add_reporter() {
    const std::lock_guard lock(mutex_);
    ++reporters_;
  }
  void remove_reporter() {
    const std::lock_guard lock(mutex_);
    if (--reporters_ == 0) waker_.add(0);
  }
  /// Returns the reports since the last call, and true if no reporter is left, so that no further
  /// report will follow.
  std::pair<std::vector<cached_file>, bool> drain() {
    const std::lock_guard lock(mutex_);
    waker_.drain();
    return {std::exchange(files_, {}), reporters_ == 0};
  }

 private:
  waker waker_;
  std::mutex mutex_;  // Guards the members below.
  std::vector<cached_file> files_;
  unsigned reporters_ = 0;
};

/// Counts as a reporter of `to` while this object exists.
struct cache_reporter {
  explicit cache_reporter(std::shared_ptr<cache_reports> reports) : to(std::move(reports)) {
    to->add_reporter();
  }
  cache_reporter(const cache_reporter&) = delete;
  cache_reporter& operator=(const cache_reporter&) = delete;
  ~cache_reporter() { to->remove_reporter(); }
  const std::shared_ptr<cache_reports> to;
};

struct held_cache_reports {
  std::shared_ptr<cache_reports> of = std::make_shared<cache_reports>();
};

}  // namespace ringload::python
