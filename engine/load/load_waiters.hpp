// SPDX-License-Identifier: Apache-2.0
#pragma once

// The operations of the public API that wait for a load: for a certain tensor, for the next tensor,
// for the start or for the end. Engine thread only.

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

// A queue of waiting operations. A cancelled operation is found by its id.
template <class T>
class waiter_list {
 public:
  using operation_ptr = std::unique_ptr<operation<T>>;

  bool empty() const noexcept { return list_.empty(); }
  // `id` must be greater than all earlier ids.
  void add(std::uint64_t id, operation_ptr waiting) { list_.push_back({id, std::move(waiting)}); }

  operation_ptr pop() noexcept {
    if (list_.empty()) return nullptr;
    operation_ptr first = std::move(list_.front().waiting);
    list_.pop_front();
    return first;
  }
  // Removes the waiting operation with this id. Returns null if the operation has already
  // completed.
  operation_ptr remove(std::uint64_t id) noexcept {
    const auto found = std::lower_bound(list_.begin(), list_.end(), id,
                                        [](const entry& e, std::uint64_t i) { return e.id < i; });
    if (found == list_.end() || found->id != id) return nullptr;
    operation_ptr removed = std::move(found->waiting);
    list_.erase(found);
    return removed;
  }

  void complete_all(const T& value) {
    while (!list_.empty()) pop()->complete(value);
  }
  // Completes all operations with `value`, or with the failure of the load if the load was stopped.
  // If a completion throws std::bad_alloc, the handler of this operation is destroyed without a
  // call. The other operations are still completed.
  void end_all(const stop_state& outcome, T value) noexcept {
    while (!list_.empty()) {
      const operation_ptr waiting = pop();
      try {
        if (outcome.stopped()) {
          waiting->fail(outcome.cause());
        } else {
          waiting->complete(list_.empty() ? std::move(value) : value);
        }
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
  std::uint64_t new_id() noexcept { return ++last_id_; }

  // Null if no operation waits for the start, or if the load has started.
  std::unique_ptr<operation<load_handle>> start;
  std::unordered_map<std::uint32_t, waiter_list<tensor>> tensors;
  waiter_list<std::optional<tensor>> next;
  waiter_list<model> finish;
  waiter_list<checkpoint> open;
  waiter_list<tensor> copy;
  // Null if the load is not a fill, or if the load has finished.
  std::unique_ptr<operation<fill_result>> fill;

  // Removes an operation that waits for tensor `t`. Returns null if the operation has already
  // completed.
  std::unique_ptr<operation<tensor>> remove(std::uint32_t t, std::uint64_t id) noexcept {
    const auto found = tensors.find(t);
    return found == tensors.end() ? nullptr : found->second.remove(id);
  }

  // Completes all waiting operations except `fill`. `loaded` and `opened` are used only if the load
  // was not stopped.
  void end_all(const stop_state& outcome, model loaded, checkpoint opened) noexcept {
    end_start(outcome);
    for (auto& [t, list] : tensors) list.end_all(outcome, tensor());
    tensors.clear();
    next.end_all(outcome, std::nullopt);
    tensor copied = copy.empty() || loaded.empty() ? tensor() : loaded[0];
    finish.end_all(outcome, std::move(loaded));
    open.end_all(outcome, std::move(opened));
    copy.end_all(outcome, std::move(copied));
  }

 private:
  void end_start(const stop_state& outcome) noexcept {
    if (!start) return;
    try {
      std::exchange(start, nullptr)->fail(outcome.cause());
    } catch (const std::bad_alloc&) {
    }
  }

  std::uint64_t last_id_ = 0;
};

}  // namespace ringload::inline v0::detail
