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

#include "io/readers/reader.hpp"
#include "runtime/engine.hpp"

namespace ringload::testing {

// What becomes of one read.
struct read_fate {
  enum class hold {
    none,
    start,       // Not started until it is released.
    completion,  // Read, but not completed until it is released.
  };
  static constexpr int as_read = INT_MAX;

  int result = as_read;  // At most so many bytes; or, if negative, -errno.
  hold until_released = hold::none;
};

// Shared by the test and by the readers that it is told to make. Any thread.
class read_script {
 public:
  // Asked in the engine thread for each read, with its number, from 0 on.
  using rule = std::function<read_fate(const read_request&, std::uint64_t)>;

  explicit read_script(rule how = {}) : rule_(std::move(how)) {}

  detail::engine::wrappers wrapper();
  // Before the first read.
  void runs_in(boost::asio::io_context& loop) { loop_ = &loop; }

  void follow(rule how) {
    const std::lock_guard lock(mutex_);
    rule_ = std::move(how);
  }

  std::uint64_t started() const {
    const std::lock_guard lock(mutex_);
    return log_.size();
  }
  // Every read, in the order of starting.
  std::vector<read_request> log() const {
    const std::lock_guard lock(mutex_);
    return log_;
  }

  // False if they do not come in time.
  bool wait_until_held(std::size_t count) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, std::chrono::seconds(30), [&] { return held_.size() >= count; });
  }
  std::size_t held() const {
    const std::lock_guard lock(mutex_);
    return held_.size();
  }

  // Lets one of those that are held go, by its place among them.
  void release(std::size_t position) {
    std::function<void()> go;
    {
      const std::lock_guard lock(mutex_);
      go = std::move(held_.at(position));
      held_.erase(held_.begin() + static_cast<std::ptrdiff_t>(position));
    }
    boost::asio::post(*loop_, std::move(go));
  }
  // From now on nothing is held, and what was is let go.
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

  read_fate decide(const read_request& what) {
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
  // In the engine thread.
  void hold_or_go(std::function<void()> go) {
    {
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
  std::vector<read_request> log_;
  std::vector<std::function<void()>> held_;
  bool holding_ = true;
};

class scripted_reader final : public reader {
 public:
  scripted_reader(read_script& script, std::unique_ptr<reader> real)
      : script_(script), real_(std::move(real)) {}

  bool populates() const noexcept override { return real_->populates(); }

  void start(operation& op) override {
    const read_fate fate = script_.decide(op.request);
    auto* mine = new scripted(script_, op, fate);
    if (fate.until_released == read_fate::hold::start) {
      // Let go of at once, it must still not complete in here; the real reader sees to that.
      script_.hold_or_go([this, mine] { real_->start(*mine); });
    } else {
      real_->start(*mine);
    }
  }

 private:
  struct scripted final : operation {
    scripted(read_script& s, operation& o, const read_fate& f) : script(s), outer(o), fate(f) {
      request = o.request;
      done = [](operation& self, int res) { static_cast<scripted&>(self).completed(res); };
    }

    void completed(int res) {
      // Also a failed read has been made: its bytes must not be request makes a test pass.
      const int told = fate.result == read_fate::as_read || (res < 0 && fate.result >= 0)
                           ? res
                           : std::min(res, fate.result);
      const auto kept = static_cast<std::size_t>(std::max(told, 0));
      const bool pages = request.supply != nullptr;  // Mapped: they may not be written to.
      if (told != res && !pages) std::memset(request.into + kept, 0xEE, request.bytes - kept);
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

  read_script& script_;
  std::unique_ptr<reader> real_;
};

inline detail::engine::wrappers read_script::wrapper() {
  detail::engine::wrappers wrap;
  wrap.of_reader = [this](std::unique_ptr<reader> real) -> std::unique_ptr<reader> {
    return std::make_unique<scripted_reader>(*this, std::move(real));
  };
  return wrap;
}

}  // namespace ringload::testing
