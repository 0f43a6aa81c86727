// SPDX-License-Identifier: Apache-2.0
#pragma once

// An object in memory whose reads a test holds until it opens a gate, or until the reads are
// stopped.

#include <atomic>
#include <boost/asio/error.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/thread_pool.hpp>
#include <cstdint>
#include <cstring>
#include <exception>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <ringload/byte_source.hpp>
#include <ringload/error.hpp>
#include <span>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

namespace ringload::testing {

// Holds reads of objects in memory until the gate is opened, or until the read is stopped.
class read_gate {
 public:
  enum class state { open, holds_data, holds_all };

  ~read_gate() { threads_.join(); }

  void set(state next) {
    std::list<std::shared_ptr<held_read>> released;
    {
      const std::lock_guard lock(mutex_);
      state_ = next;
      if (next == state::open) released.swap(held_);
    }
    for (const auto& read : released) end(read, true);
  }

  void read(const std::string& text, const source_read& request, byte_source::read_handler done,
            bool is_data) {
    auto read = std::make_shared<held_read>(text, request, std::move(done));
    {
      const std::lock_guard lock(mutex_);
      const bool holds = state_ == state::holds_all || (state_ == state::holds_data && is_data);
      if (holds) held_.push_back(read);
      if (!holds) return end(read, true);
    }
    read->stop.emplace(request.stop, [this, weak = std::weak_ptr(read)] {
      if (const auto stopped = weak.lock()) end(stopped, false);
    });
  }

 private:
  struct held_read {
    held_read(const std::string& t, source_read r, byte_source::read_handler d)
        : text(t), request(std::move(r)), done(std::move(d)) {}
    const std::string& text;
    const source_read request;
    byte_source::read_handler done;
    std::atomic<bool> ended = false;
    std::optional<std::stop_callback<std::function<void()>>> stop;
  };

  // Completes the read in another thread, once.
  void end(const std::shared_ptr<held_read>& read, bool succeeds) {
    if (read->ended.exchange(true)) return;
    boost::asio::post(threads_, [this, read, succeeds] {
      {
        const std::lock_guard lock(mutex_);
        held_.remove(read);
      }
      const std::span<std::byte> into = read->request.into;
      if (succeeds) std::memcpy(into.data(), read->text.data() + read->request.offset, into.size());
      const error stopped(boost::asio::error::operation_aborted, "", "stopped");
      auto done = std::move(read->done);
      std::move(done)(succeeds ? nullptr : std::make_exception_ptr(stopped));
    });
  }

  boost::asio::thread_pool threads_{1};
  std::mutex mutex_;
  state state_ = state::open;  // Guarded by the mutex, as the next member.
  std::list<std::shared_ptr<held_read>> held_;
};

// An object in memory behind a gate, and its folder.
class gated_object final : public byte_source {
 public:
  gated_object(read_gate& gate, const std::string& text, std::uint64_t data_begin)
      : gate_(gate), text_(text), data_begin_(data_begin) {}

  std::uint64_t bytes() const noexcept override { return text_.size(); }
  std::string identity() const override { return {}; }
  void read_async(const source_read& request, read_handler done) override {
    // Because of alignment, a read may begin before the first tensor.
    const bool is_data = request.offset + request.into.size() > data_begin_;
    gate_.read(text_, request, std::move(done), is_data);
  }

 private:
  read_gate& gate_;
  const std::string& text_;
  const std::uint64_t data_begin_;
};

class gated_folder final : public byte_folder {
 public:
  gated_folder(std::shared_ptr<byte_source> object, std::string name)
      : object_(std::move(object)), name_(std::move(name)) {}

  std::vector<std::string> names(const std::stop_token&) override { return {name_}; }
  std::shared_ptr<byte_source> open(const std::string&, const std::stop_token&) override {
    return object_;
  }
  std::string path_of(const std::string& name) const override { return "gated/" + name; }

 private:
  const std::shared_ptr<byte_source> object_;
  const std::string name_;
};

}  // namespace ringload::testing
