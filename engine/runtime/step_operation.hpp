// SPDX-License-Identifier: Apache-2.0
#pragma once

// Runs one operation in a thread of its own. Used by operations that block for a long time, such as
// delta operations and attaching to a keeper.

#include <boost/asio/error.hpp>
#include <memory>
#include <optional>
#include <ringload/detail/operation.hpp>
#include <string>
#include <system_error>
#include <utility>

#include "base/catch_as_fault.hpp"
#include "base/end_operation.hpp"
#include "base/fault.hpp"
#include "base/retry_allocation.hpp"
#include "runtime/cancel_step.hpp"
#include "runtime/step_thread.hpp"

namespace ringload::inline v0::detail {

template <class T, class Work>
struct operation_step final : step_thread::step {
  operation_step(std::unique_ptr<operation<T>>&& pending, std::string&& fault_place,
                 std::shared_ptr<step_cancellation>&& step_cancel, Work&& new_work) noexcept
      : waiting(std::move(pending)),
        place(std::move(fault_place)),
        cancellation(std::move(step_cancel)),
        work(std::in_place, std::move(new_work)) {}

  void run() noexcept override {
    auto outcome = catch_as_fault([&]() -> result<T> {
      cancellation->begin(*waiting->cancel);
      return (*work)();
    });
    work.reset();  // Destroys the arguments before the operation completes.
    // The result of completed work is returned even after a cancellation, because the work may have
    // changed the caller's memory. The failure to restore this memory is returned for the same
    // reason.
    const bool is_cancelled = cancellation->finish();
    if (is_cancelled && !outcome && outcome.error().code != errc::not_restored) {
      outcome = retry_allocation([this] {
        return fault{boost::asio::error::operation_aborted, place, "it was cancelled"};
      });
    }
    end_operation(waiting, std::move(outcome));
    // The thread ends after this step. The step_thread is destroyed here by the thread itself,
    // unless run_step_operation() has not returned yet and still owns the step_thread.
    const auto last = std::move(self);
  }

  std::unique_ptr<operation<T>> waiting;
  const std::string place;
  const std::shared_ptr<step_cancellation> cancellation;
  std::optional<Work> work;
  std::shared_ptr<step_thread> self;
};

// Starts a thread that calls `work()`. The result, of type T, completes the operation. If the
// operation completes as cancelled, the fault has `place` as its place. Reports every failure by
// completing the operation.
template <class T, class Work>
void run_step_operation(std::unique_ptr<operation<T>> waiting, std::string place,
                        std::shared_ptr<step_cancellation> cancellation, Work work) {
  std::error_code refused;
  const auto thread = retry_allocation([&]() -> std::shared_ptr<step_thread> {
    try {
      return std::make_shared<step_thread>();
    } catch (const std::system_error& failure) {
      refused = failure.code();
      return nullptr;
    }
  });
  if (!thread) {
    // Releases the owners of the caller's memory before the completion.
    {
      const Work released(std::move(work));
    }
    end_operation(waiting,
                  retry_allocation([&] { return result<T>(thread_refused(refused.value())); }));
    return;
  }
  auto new_step = retry_allocation([&] {
    return std::make_unique<operation_step<T, Work>>(std::move(waiting), std::move(place),
                                                     std::move(cancellation), std::move(work));
  });
  new_step->self = thread;
  thread->add(std::move(new_step));
}

}  // namespace ringload::inline v0::detail
