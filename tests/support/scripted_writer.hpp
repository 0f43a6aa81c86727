// SPDX-License-Identifier: Apache-2.0
#pragma once

// A loader whose writes follow a script: short writes, errors, and functions of the test.

#include <algorithm>
#include <boost/asio/post.hpp>
#include <boost/asio/system_executor.hpp>
#include <climits>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <ringload/loader.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "io/io_queue.hpp"
#include "runtime/engine.hpp"

namespace ringload::testing {

// Shared by the test and its writers.
class write_script {
 public:
  static constexpr int as_written = INT_MAX;
  // Called in the engine thread for each write, with its number from 0. Returns the number of bytes
  // to write, or -errno to write none.
  using rule = std::function<int(const io_request&, std::uint64_t)>;

  explicit write_script(rule how = {}) : rule_(std::move(how)) {}

  // All writes, in the order of their starts. Thread-safe.
  std::vector<io_request> log() const {
    const std::lock_guard lock(mutex_);
    return log_;
  }

  int decide(const io_request& what) {
    std::uint64_t number = 0;
    {
      const std::lock_guard lock(mutex_);
      number = log_.size();
      log_.push_back(what);
    }
    return rule_ ? rule_(what, number) : as_written;
  }

  boost::asio::io_context* loop = nullptr;  // Set before the first write.

 private:
  const rule rule_;
  mutable std::mutex mutex_;
  std::vector<io_request> log_;  // Guarded by the mutex.
};

class scripted_writer final : public io_queue {
 public:
  scripted_writer(write_script& script, std::unique_ptr<io_queue> real)
      : script_(script), real_(std::move(real)) {}

  bool populates() const noexcept override { return real_->populates(); }

  void start(operation& op) override {
    if (!op.request.is_write) return real_->start(op);
    const int fate = script_.decide(op.request);
    if (fate <= 0) {
      boost::asio::post(*script_.loop, [&op, fate] { op.done(op, fate); });
      return;
    }
    // A direct write of a partial block would be refused, so no byte of that block is written.
    const auto most = static_cast<std::uint32_t>(fate);
    if (op.request.direct && most < op.request.bytes && most % 4096 != 0 && most < 4096) {
      boost::asio::post(*script_.loop, [&op, fate] { op.done(op, fate); });
      return;
    }
    if (most < op.request.bytes) op.request.bytes = op.request.direct ? most / 4096 * 4096 : most;
    real_->start(op);
  }

 private:
  write_script& script_;
  const std::unique_ptr<io_queue> real_;
};

class scripted_saver {
 public:
  explicit scripted_saver(write_script& script, const loader_options& within = {},
                          device on = host()) {
    const auto wrap = [&script](std::unique_ptr<io_queue> real) -> std::unique_ptr<io_queue> {
      return std::make_unique<scripted_writer>(script, std::move(real));
    };
    engine_ = detail::engine::make({on}, within, wrap);
    script.loop = &engine_->loop;
  }
  scripted_saver(const scripted_saver&) = delete;
  scripted_saver& operator=(const scripted_saver&) = delete;
  ~scripted_saver() { engine_->close(); }

  template <class CompletionToken>
  auto save_async(std::string_view path, std::vector<tensor_ref> tensors, save_options how,
                  CompletionToken&& token) {
    return detail::initiate<save_result, &detail::begin_save>(
        std::forward<CompletionToken>(token), boost::asio::system_executor(), engine_,
        std::string(path), std::move(tensors), std::move(how));
  }

 private:
  std::shared_ptr<detail::engine> engine_;
};

}  // namespace ringload::testing
