// SPDX-License-Identifier: Apache-2.0
#pragma once

// A reader that injects faults in front of a real one: short reads, errors, reads held before they
// start, and completions held and released in any order.

#include <algorithm>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <chrono>
#include <climits>
#include <condition_variable>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "io/io_queue.hpp"
#include "runtime/engine.hpp"
#include "support/certain_memory.hpp"

namespace ringload::testing {

// The rule for one read.
struct read_fate {
  enum class hold {
    none,
    start,       // Not started until it is released.
    completion,  // Read, but not completed until it is released.
  };
  static constexpr int as_read = INT_MAX;

  int result = as_read;  // The maximum number of bytes, or -errno if negative.
  hold until_released = hold::none;
};

// Shared by the test and its readers. Thread-safe.
class read_script {
 public:
  // Called in the engine thread for each read, with its number from 0.
  using rule = std::function<read_fate(const io_request&, std::uint64_t)>;

  explicit read_script(rule how = {}) : rule_(std::move(how)) {}

  detail::engine::wrapper wrapper();
  // Must be called before the first read.
  void runs_in(boost::asio::io_context& loop) { loop_ = &loop; }

  void follow(rule how) {
    const std::lock_guard lock(mutex_);
    rule_ = std::move(how);
  }

  std::uint64_t started() const {
    const std::lock_guard lock(mutex_);
    return log_.size();
  }
  // All reads, in the order of their starts.
  std::vector<io_request> log() const {
    const std::lock_guard lock(mutex_);
    return log_;
  }

  // Returns false after a timeout.
  bool wait_until_held(std::size_t count) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, std::chrono::seconds(30), [&] { return held_.size() >= count; });
  }
  std::size_t held() const {
    const std::lock_guard lock(mutex_);
    return held_.size();
  }

  // Releases one of the held reads, by its index among them.
  void release(std::size_t position) {
    std::function<void()> go;
    {
      const std::lock_guard lock(mutex_);
      go = std::move(held_.at(position));
      held_.erase(held_.begin() + static_cast<std::ptrdiff_t>(position));
    }
    boost::asio::post(*loop_, std::move(go));
  }
  // Holds reads again, after release_all().
  void hold_again() {
    const std::lock_guard lock(mutex_);
    holding_ = true;
  }
  // Releases all held reads, and holds no later read.
  void release_all() {
    std::vector<std::function<void()>> all;
    {
      const std::lock_guard lock(mutex_);
      holding_ = false;
      all.swap(held_);
    }
    for (auto& go : all) boost::asio::post(*loop_, std::move(go));
  }

 private:
  friend class scripted_reader;

  read_fate decide(const io_request& what) {
    const certain_memory for_the_script;
    rule how;
    std::uint64_t number = 0;
    {
      const std::lock_guard lock(mutex_);
      number = log_.size();
      log_.push_back(what);
      how = rule_;
    }
    return how ? how(what, number) : read_fate();
  }
  // Engine thread only.
  void hold_or_go(std::function<void()> go) {
    {
      const certain_memory for_the_script;
      const std::lock_guard lock(mutex_);
      if (holding_) {
        held_.push_back(std::move(go));
        changed_.notify_all();
        return;
      }
    }
    go();
  }

  boost::asio::io_context* loop_ = nullptr;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  // Guarded by the mutex.
  rule rule_;
  std::vector<io_request> log_;
  std::vector<std::function<void()>> held_;
  bool holding_ = true;
};

class scripted_reader final : public io_queue {
 public:
  scripted_reader(read_script& script, std::unique_ptr<io_queue> real)
      : script_(script), real_(std::move(real)) {}

  bool populates() const noexcept override { return real_->populates(); }

  void start(operation& op) override {
    const read_fate fate = script_.decide(op.request);
    scripted* const mine = make(op, fate);
    if (fate.until_released == read_fate::hold::start) {
      // A read that is released at once must not complete in this function. The real reader
      // guarantees this.
      script_.hold_or_go([this, mine] { real_->start(*mine); });  // Does not allocate.
    } else {
      real_->start(*mine);
    }
  }

 private:
  struct scripted final : operation {
    scripted(read_script& s, operation& o, const read_fate& f) : script(s), outer(o), fate(f) {
      request = o.request;
      done = [](io_completion& self, int res) { static_cast<scripted&>(self).completed(res); };
    }

    void completed(int res) {
      // A failed read must not have written the correct bytes, because a test could then pass by
      // mistake.
      const int told = fate.result == read_fate::as_read || (res < 0 && fate.result >= 0)
                           ? res
                           : std::min(res, fate.result);
      const auto kept = static_cast<std::size_t>(std::max(told, 0));
      const bool pages = request.supply != nullptr;  // Mapped memory must not be written.
      if (told != res && !pages) std::memset(request.memory + kept, 0xEE, request.bytes - kept);
      auto tell = [this, told] {
        const std::unique_ptr<scripted> mine(this);
        outer.done(outer, told);
      };
      if (fate.until_released == read_fate::hold::completion) {
        script.hold_or_go(tell);
      } else {
        tell();
      }
    }

    read_script& script;
    operation& outer;
    const read_fate fate;
  };

  // start() must not throw, so this allocation does not fail.
  scripted* make(operation& op, const read_fate& fate) {
    const certain_memory for_the_script;
    return new scripted(script_, op, fate);
  }

  read_script& script_;
  std::unique_ptr<io_queue> real_;
};

inline detail::engine::wrapper read_script::wrapper() {
  return [this](std::unique_ptr<io_queue> real) -> std::unique_ptr<io_queue> {
    return std::make_unique<scripted_reader>(*this, std::move(real));
  };
}

}  // namespace ringload::testing
