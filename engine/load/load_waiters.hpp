// SPDX-License-Identifier: Apache-2.0
#pragma once

// The operations that wait for a load: for one tensor, for the next one, for the start, for the
// end. Engine thread only.

#include <algorithm>
#include <cstdint>
#include <deque>
#include <memory>
#include <new>
#include <optional>
#include <ringload/checkpoint.hpp>
#include <ringload/fill.hpp>
#include <ringload/load_operation.hpp>
#include <unordered_map>
#include <utility>

#include "runtime/stop_state.hpp"

namespace ringload::inline v0::detail {

// Operations in the order of their arrival. Each operation has an id, for cancellation.
template <class T>
class waiter_list {
 public:
  using operation_ptr = std::unique_ptr<operation<T>>;

  bool empty() const noexcept { return list_.empty(); }
  // Ids must ascend.
  void add(std::uint64_t id, operation_ptr waiting) { list_.push_back({id, std::move(waiting)}); }

  // Returns null if the list is empty.
  operation_ptr pop() noexcept {
    if (list_.empty()) return nullptr;
    operation_ptr first = std::move(list_.front().waiting);
    list_.pop_front();
    return first;
  }
  // Returns null if the operation has completed already.
  operation_ptr remove(std::uint64_t id) noexcept {
    const auto found = std::lower_bound(list_.begin(), list_.end(), id,
                                        [](const entry& e, std::uint64_t i) { return e.id < i; });
    if (found == list_.end() || found->id != id) return nullptr;
    operation_ptr removed = std::move(found->waiting);
    list_.erase(found);
    return removed;
  }

  void complete_all(const T& value) {
    while (!list_.empty()) pop()->complete(nullptr, value);
  }
  // Completes all operations: with the failure if the load was stopped, else with `value`. The last
  // operation gets `value` by move. If memory is missing, a handler is destroyed, as Asio does with
  // its own handlers. The other operations are still completed.
  void end_all(const stop_state& outcome, T value) noexcept {
    while (!list_.empty()) {
      const operation_ptr waiting = pop();
      try {
        T result_value = outcome.stopped() ? T() : list_.empty() ? std::move(value) : value;
        waiting->complete(outcome.failure(), std::move(result_value));
      } catch (const std::bad_alloc&) {
      }
    }
  }

 private:
  struct entry {
    std::uint64_t id;
    operation_ptr waiting;
  };
  std::deque<entry> list_;
};

class load_waiters {
 public:
  // Id for the next added operation.
  std::uint64_t new_id() noexcept { return ++last_id_; }

  std::unique_ptr<operation<load_operation>> start;  // Null: no waiter, or the load has started.
  std::unordered_map<std::uint32_t, waiter_list<tensor>> tensors;
  waiter_list<std::optional<tensor>> next;
  waiter_list<model> finish;
  waiter_list<checkpoint> open;
  waiter_list<tensor> copy;
  std::unique_ptr<operation<fill_result>> fill;  // Null: no fill, or the load is over.

  // Removes an operation that waits for tensor t. Returns null if it has completed already.
  std::unique_ptr<operation<tensor>> remove(std::uint32_t t, std::uint64_t id) noexcept {
    const auto found = tensors.find(t);
    return found == tensors.end() ? nullptr : found->second.remove(id);
  }

  // Completes all waiting operations. `loaded` and `opened` are the results of a load that was not
  // stopped.
  void end_all(const stop_state& outcome, model loaded, checkpoint opened) noexcept {
    if (start) {
      try {
        std::exchange(start, nullptr)->complete(outcome.failure(), load_operation());
      } catch (const std::bad_alloc&) {
      }
    }
    for (auto& [t, list] : tensors) list.end_all(outcome, tensor());
    tensors.clear();
    next.end_all(outcome, std::nullopt);
    tensor copied = copy.empty() || loaded.empty() ? tensor() : loaded[0];
    finish.end_all(outcome, std::move(loaded));
    open.end_all(outcome, std::move(opened));
    copy.end_all(outcome, std::move(copied));
  }

 private:
  std::uint64_t last_id_ = 0;
};

}  // namespace ringload::inline v0::detail
