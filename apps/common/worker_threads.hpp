// SPDX-License-Identifier: Apache-2.0
#pragma once

// A pool of threads for functions that are posted to its executor.
//
// asio::thread_pool is not used, because of an error in Boost 1.81. If the second thread cannot be
// started, the constructor of asio::thread_pool waits for the first thread forever.

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
  /// Starts `count` threads, but at least one. If the system refuses a thread, the pool has fewer
  /// threads. Throws ringload::error if the system refuses the first thread.
  explicit worker_threads(unsigned count) {
    count = std::max(1U, count);
    threads_.reserve(count);
    try {
      while (threads_.size() < count) threads_.emplace_back([this] { context_.run(); });
    } catch (const std::system_error& refused) {
      if (!threads_.empty()) return;
      throw error({refused.code().value(), boost::system::system_category()}, {},
                  "a thread could not be started: " + refused.code().message() +
                      ": the limit of threads (ulimit -u) or of memory (ulimit -v) may be reached");
    }
  }
  worker_threads(const worker_threads&) = delete;
  worker_threads& operator=(const worker_threads&) = delete;

  /// Waits until all posted functions have run.
  ~worker_threads() {
    stay_.reset();
    for (std::thread& thread : threads_) {
      if (thread.joinable()) thread.join();
    }
  }

  boost::asio::io_context::executor_type get_executor() noexcept { return context_.get_executor(); }

  /// Waits for the functions that are running. Functions that have not started are dropped.
  void stop() {
    context_.stop();
    for (std::thread& thread : threads_) thread.join();
    threads_.clear();
  }

 private:
  boost::asio::io_context context_;
  std::optional<boost::asio::executor_work_guard<boost::asio::io_context::executor_type>> stay_{
      context_.get_executor()};
  std::vector<std::thread> threads_;
};

}  // namespace ringload::tool
