// SPDX-License-Identifier: Apache-2.0
#pragma once

// Runs one delta operation (make, apply or update) in a thread of its own, and provides the
// functions that these operations share.

#include <boost/asio/system_executor.hpp>
#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <ringload/checkpoint.hpp>
#include <ringload/delta.hpp>
#include <ringload/model.hpp>
#include <ringload/verify.hpp>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/catch_as_fault.hpp"
#include "base/end_operation.hpp"
#include "base/fault.hpp"
#include "base/retry_allocation.hpp"
#include "runtime/cancel_step.hpp"
#include "runtime/step_thread.hpp"

namespace ringload::inline v0::detail {

// Calls `work(index)` for each index below `count`, in parallel. Uses one thread per processor, at
// most 16. After a failure, starts no further call. Returns the first failure. `work` may throw.
result<void> for_each_index(std::size_t count,
                            const std::function<result<void>(std::size_t)>& work);

inline std::span<const std::byte> host_bytes(const tensor& source) {
  return {static_cast<const std::byte*>(source.data()),
          static_cast<std::size_t>(source.size_bytes())};
}

// The loader and the cancellation of one delta operation.
class delta_services {
 public:
  explicit delta_services(engine_ptr loader_engine) : engine_(std::move(loader_engine)) {}

  step_cancellation& cancellation() const noexcept { return *cancellation_; }
  // Throws operation_aborted if the operation was cancelled.
  void check_cancelled() const;

  // The next four functions throw ringload::error on failure.
  void require_host() const;
  checkpoint open(const source& from) const;
  // Loads the named tensors. Each name must exist.
  model load(const source& from, std::vector<std::string> names, const verification& verify) const;
  model load_all(const source& from, const load_options& options = {}) const;
  const std::shared_ptr<engine>& loader_engine() const noexcept { return engine_; }

 private:
  const engine_ptr engine_;
  const std::shared_ptr<step_cancellation> cancellation_ = std::make_shared<step_cancellation>();
};

// Starts a thread that calls `work(services)`. The result, of type T, completes the operation.
template <class T, class Work>
void run_delta_operation(const engine_ptr& loader_engine, std::unique_ptr<operation<T>> waiting,
                         Work work) {
  struct step final : step_thread::step {
    step(const engine_ptr& e, std::unique_ptr<operation<T>> w, Work d)
        : services(e), waiting(std::move(w)), work(std::in_place, std::move(d)) {}

    void run() noexcept override {
      auto outcome = catch_as_fault([&]() -> result<T> {
        services.cancellation().begin(*waiting->cancel);
        return (*work)(services);
      });
      work.reset();  // Destroys the arguments before the operation completes.
      // The result of completed work is returned even after a cancellation, because the work may
      // have changed the caller's memory.
      if (services.cancellation().finish() && !outcome) {
        outcome = retry_allocation([] {
          return fault{boost::asio::error::operation_aborted, "delta", "it was cancelled"};
        });
      }
      end_operation(waiting, std::move(outcome));
      // The thread ends after this step. The step_thread is destroyed here, by the thread itself.
      const auto last = std::move(self);
    }

    delta_services services;
    std::unique_ptr<operation<T>> waiting;
    std::optional<Work> work;
    std::shared_ptr<step_thread> self;
  };

  try {
    const auto thread = std::make_shared<step_thread>();
    auto new_step = std::make_unique<step>(loader_engine, std::move(waiting), std::move(work));
    new_step->self = thread;
    thread->add(std::move(new_step));
  } catch (const std::system_error& refused) {
    const fault failure = thread_refused(refused.code().value());
    waiting->fail(failure);
  }
}

}  // namespace ringload::inline v0::detail
