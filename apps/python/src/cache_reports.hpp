// SPDX-License-Identifier: Apache-2.0
#pragma once

// What became of files that were to be written into the local cache, told to a thread of Python's:
// the library's own never takes the GIL.

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
  /// Nobody reports any more.
  void end() {
    const std::lock_guard lock(mutex_);
    over_ = true;
    waker_.add(0);
  }
  /// Those since the last call, and whether they are the last.
  std::pair<std::vector<cached_file>, bool> drain() {
    const std::lock_guard lock(mutex_);
    waker_.drain();
    return {std::exchange(files_, {}), over_};
  }

 private:
  waker waker_;
  std::mutex mutex_;  // Guards the rest.
  std::vector<cached_file> files_;
  bool over_ = false;
};

/// Ends the reports with the last function that could add to them.
struct cache_reporter {
  explicit cache_reporter(std::shared_ptr<cache_reports> r) : to(std::move(r)) {}
  cache_reporter(const cache_reporter&) = delete;
  cache_reporter& operator=(const cache_reporter&) = delete;
  ~cache_reporter() { to->end(); }
  const std::shared_ptr<cache_reports> to;
};

struct held_cache_reports {
  std::shared_ptr<cache_reports> of = std::make_shared<cache_reports>();
};

}  // namespace ringload::python
