// SPDX-License-Identifier: Apache-2.0
#pragma once

// The host as a device in which one chosen call fails or is held: an allocation, the preparation of
// a slot, or a copy. The process has one script, because a plain function creates a device.

#include <boost/asio/post.hpp>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <ringload/device.hpp>
#include <utility>

#include "device/backend.hpp"
#include "support/counted_device.hpp"

namespace ringload::testing {

class device_script {
 public:
  enum class fate { as_usual, fails, held };

  // The number of the chosen call, counted from 0 from now on.
  void begin(std::uint64_t chosen, fate what) {
    const std::lock_guard lock(mutex_);
    calls_ = 0;
    chosen_ = chosen;
    fate_ = what;
    held_ = false;
  }
  std::uint64_t calls() {
    const std::lock_guard lock(mutex_);
    return calls_;
  }

  // Returns true when the chosen call is held, and false if the call does not occur while `more()`
  // is true.
  template <class More>
  bool wait_until_held(const More& more) {
    std::unique_lock lock(mutex_);
    while (!held_) {
      if (changed_.wait_for(lock, std::chrono::milliseconds(2), [this] { return held_; })) break;
      lock.unlock();
      const bool again = more();
      lock.lock();
      if (!again) return held_;
    }
    return true;
  }
  void release() {
    const std::lock_guard lock(mutex_);
    held_ = false;
    fate_ = fate::as_usual;
    changed_.notify_all();
  }

  // Returns true if the call must fail. Blocks while the call is held, if the thread may block.
  bool next_fails() {
    std::unique_lock lock(mutex_);
    if (calls_++ != chosen_ || fate_ == fate::as_usual) return false;
    if (fate_ == fate::fails) return true;
    held_ = true;
    changed_.notify_all();
    changed_.wait_for(lock, std::chrono::seconds(30), [this] { return !held_; });
    return false;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  // Guarded by the mutex.
  std::uint64_t calls_ = 0;
  std::uint64_t chosen_ = 0;
  fate fate_ = fate::as_usual;
  bool held_ = false;
};

inline device_script the_device_script;

class scripted_backend final : public backend {
 public:
  placement_rules rules() const noexcept override { return real_->rules(); }
  void keep(std::uint64_t bytes_max) override { real_->keep(bytes_max); }
  result<std::shared_ptr<arena>> allocate(std::uint64_t bytes) override {
    if (the_device_script.next_fails()) return fault{errc::memory_exceeded, "", "as the test says"};
    auto real = real_->allocate(bytes);
    if (!real) return real.error();
    return std::shared_ptr<arena>(std::make_shared<counted_arena>(std::move(*real)));
  }
  result<std::string> pin(std::span<std::byte> slot) override {
    if (the_device_script.next_fails()) return fault{errc::memory_exceeded, "", "as the test says"};
    return real_->pin(slot);
  }
  result<void> attach(boost::asio::io_context& loop, slot_region slots) override {
    loop_ = &loop;
    return real_->attach(loop, slots);
  }
  bool copy_now(const copy_operation& op) noexcept override { return real_->copy_now(op); }
  // Runs in a copy thread, so that the call can be held. The host makes the copies.
  void start(copy_operation& op) noexcept override {
    boost::asio::post(op.threads, [this, &op] {
      if (the_device_script.next_fails()) {
        boost::asio::post(*loop_, [&op] { op.done(op, errc::memory_exceeded); });
        return;
      }
      real_->copy_now(op);
      boost::asio::post(*loop_, [&op] { op.done(op, {}); });
    });
  }
  void detach() noexcept override { real_->detach(); }

 private:
  const std::unique_ptr<backend> real_ = host().maker()(0);
  boost::asio::io_context* loop_ = nullptr;
};

inline device scripted_host() noexcept {
  return {device_kind::host, 0,
          [](int) -> std::unique_ptr<backend> { return std::make_unique<scripted_backend>(); }};
}

}  // namespace ringload::testing
