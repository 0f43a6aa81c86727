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

// Operations in the order in which they came, each with an id to cancel it by.
template <class T>
class waiter_list {
 public:
  using operation_ptr = std::unique_ptr<operation<T>>;

  bool empty() const noexcept { return list_.empty(); }
  // Ids must ascend.
  void add(std::uint64_t id, operation_ptr waiting) { list_.push_back({id, std::move(waiting)}); }

  // Null where the list is empty.
  operation_ptr pop() noexcept {
    if (list_.empty()) return nullptr;
    operation_ptr first = std::move(list_.front().waiting);
    list_.pop_front();
    return first;
  }
  // Null where it has been completed already.
  operation_ptr remove(std::uint64_t id) noexcept {
    const auto at = std::lower_bound(list_.begin(), list_.end(), id,
                                     [](const entry& e, std::uint64_t i) { return e.id < i; });
    if (at == list_.end() || at->id != id) return nullptr;
    operation_ptr found = std::move(at->waiting);
    list_.erase(at);
    return found;
  }

  void complete_all(const T& value) {
    while (!list_.empty()) pop()->complete(nullptr, value);
  }
  // With the failure where the load was stopped, else with `value`, which the last is given. A
  // handler for which there is no memory is destroyed, as Asio does with its own; the others are
  // still completed.
  void end_all(const stop_state& how, T value) noexcept {
    while (!list_.empty()) {
      const operation_ptr waiting = pop();
      try {
        T given = how.stopped() ? T() : list_.empty() ? std::move(value) : value;
        waiting->complete(how.failure(), std::move(given));
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
  // For the next waiter that is added.
  std::uint64_t new_id() noexcept { return ++last_id_; }

  std::unique_ptr<operation<load_operation>> start;  // Null: nobody waits, or it has started.
  std::unordered_map<std::uint32_t, waiter_list<tensor>> tensors;
  waiter_list<std::optional<tensor>> next;
  waiter_list<model> finish;
  waiter_list<checkpoint> open;
  waiter_list<tensor> copy;
  std::unique_ptr<operation<fill_result>> fill;  // Null: the load is no fill, or it is over.

  // What waits for that tensor, if it still does.
  std::unique_ptr<operation<tensor>> remove(std::uint32_t t, std::uint64_t id) noexcept {
    const auto found = tensors.find(t);
    return found == tensors.end() ? nullptr : found->second.remove(id);
  }

  // Completes everything that still waits; `whole` and `opened` are what came of it if the load
  // was not stopped.
  void end_all(const stop_state& how, model whole, checkpoint opened) noexcept {
    if (start) {
      try {
        std::exchange(start, nullptr)->complete(how.failure(), load_operation());
      } catch (const std::bad_alloc&) {
      }
    }
    for (auto& [t, list] : tensors) list.end_all(how, tensor());
    tensors.clear();
    next.end_all(how, std::nullopt);
    tensor copied = copy.empty() || whole.empty() ? tensor() : whole[0];
    finish.end_all(how, std::move(whole));
    open.end_all(how, std::move(opened));
    copy.end_all(how, std::move(copied));
  }

 private:
  std::uint64_t last_id_ = 0;
};

}  // namespace ringload::inline v0::detail
