// SPDX-License-Identifier: Apache-2.0
#pragma once

// A thread pool for work that would block the engine thread.
//
// This class replaces asio::thread_pool, which has two defects in Boost 1.81. If the second thread
// cannot be started, the constructor waits for the first thread forever. An exception in a thread
// terminates the process.

#include <sched.h>

#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <cstdint>
#include <exception>
#include <optional>
#include <system_error>
#include <thread>
#include <vector>

#include "base/fault.hpp"
#include "base/work_interval.hpp"

namespace ringload::inline v0 {

class threads {
 public:
  // If a thread cannot be started, joins the other threads and throws `error`. In traces, the
  // numbers of the threads begin with `first_number`. `processors` limits the processors of the
  // threads. `owner` becomes `this_thread_owner` of each thread.
  explicit threads(std::uint32_t count, std::uint32_t first_number = 0,
                   std::optional<cpu_set_t> processors = std::nullopt, const void* owner = nullptr)
      : processors_(processors), work_guard_(context_.get_executor()) {
    threads_.reserve(count);
    try {
      for (std::uint32_t i = 0; i < count; ++i) {
        threads_.emplace_back([this, number = first_number + i, owner] {
          this_thread_owner = owner;
          run(number);
        });
      }
    } catch (const std::system_error& refused) {
      join();
      throw to_error(thread_refused(refused.code().value()));
    } catch (...) {
      join();
      throw;
    }
  }
  threads(const threads&) = delete;
  threads& operator=(const threads&) = delete;
  ~threads() { join(); }

  // The engine whose close() must not wait for the calling thread. Null if there is no such engine.
  static inline thread_local const void* this_thread_owner = nullptr;

  std::uint32_t count() const noexcept { return static_cast<std::uint32_t>(threads_.size()); }
  boost::asio::io_context::executor_type get_executor() noexcept { return context_.get_executor(); }

  // Returns when all posted work has run.
  void join() {
    work_guard_.reset();
    for (std::thread& thread : threads_) thread.join();
    threads_.clear();
  }

 private:
  void run(std::uint32_t number) noexcept {
    work_interval::this_thread = number;
    // If the kernel refuses the processor set, the thread runs on any processor.
    if (processors_) (void)::sched_setaffinity(0, sizeof *processors_, &*processors_);
    for (;;) {
      try {
        context_.run();
        return;
      } catch (const std::exception&) {
        // Posted work should handle its own exceptions. An exception that arrives here must not end
        // the process.
      }
    }
  }

  const std::optional<cpu_set_t> processors_;
  boost::asio::io_context context_;
  std::optional<boost::asio::executor_work_guard<boost::asio::io_context::executor_type>>
      work_guard_;
  std::vector<std::thread> threads_;
};

}  // namespace ringload::inline v0
