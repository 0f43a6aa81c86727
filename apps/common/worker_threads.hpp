// SPDX-License-Identifier: Apache-2.0
#pragma once

// Threads that run what is posted to them.
//
// asio::thread_pool will not do: where its second thread cannot be started, its constructor waits
// for the first for ever (Boost 1.81).

#include <algorithm>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <optional>
#include <ringload/error.hpp>
#include <string>
#include <system_error>
#include <thread>
#include <vector>

namespace ringload::tool {

class worker_threads {
 public:
  /// Starts `wanted` threads, at least one; fewer where the system refuses more. Throws
  /// ringload::error where it refuses the first.
  explicit worker_threads(unsigned wanted) {
    wanted = std::max(1U, wanted);
    all_.reserve(wanted);
    try {
      while (all_.size() < wanted) all_.emplace_back([this] { context_.run(); });
    } catch (const std::system_error& refused) {
      if (!all_.empty()) return;
      throw error({refused.code().value(), boost::system::system_category()}, {},
                  "a thread could not be started: " + refused.code().message() +
                      ": a limit may be reached: of threads (ulimit -u), of addresses (ulimit -v)");
    }
  }
  worker_threads(const worker_threads&) = delete;
  worker_threads& operator=(const worker_threads&) = delete;

  /// Waits for all that was posted.
  ~worker_threads() {
    stay_.reset();
    for (std::thread& one : all_) {
      if (one.joinable()) one.join();
    }
  }

  boost::asio::io_context::executor_type get_executor() noexcept { return context_.get_executor(); }

  /// Waits for what runs, and gives up what has not begun.
  void stop() {
    context_.stop();
    for (std::thread& one : all_) one.join();
    all_.clear();
  }

 private:
  boost::asio::io_context context_;
  std::optional<boost::asio::executor_work_guard<boost::asio::io_context::executor_type>> stay_{
      context_.get_executor()};
  std::vector<std::thread> all_;
};

}  // namespace ringload::tool
