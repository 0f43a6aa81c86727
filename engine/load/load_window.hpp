// SPDX-License-Identifier: Apache-2.0
#pragma once

// A load through bounded memory: the chosen tensors in order, in groups that are loads of their
// own.
//
//   groups    |--0--|--1--|--2--|--3--|--4--|--5--| ...
//              given back  held    in flight   to come
//
// A group is begun as soon as its memory fits beside that of the groups in flight and of those of
// which somebody still holds a tensor. A small group is a part of the window, so that many are in
// flight at once; a tensor that is larger is a group alone.

#include <atomic>
#include <chrono>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <ringload/detail/request.hpp>
#include <ringload/load_operation.hpp>
#include <ringload/stats.hpp>
#include <vector>

#include "base/fault.hpp"
#include "catalog/opened_checkpoint.hpp"
#include "load/delivery.hpp"
#include "load/file_counters.hpp"
#include "load/window_groups.hpp"

namespace ringload::inline v0::detail {

class engine;
class tensor_storage;

class load_window final : public tensor_sequence, public std::enable_shared_from_this<load_window> {
 public:
  using waiting_ptr = std::unique_ptr<operation<std::optional<tensor>>>;

  load_window(std::shared_ptr<engine> e, load_request what,
              std::shared_ptr<const named_catalog> chosen, std::vector<window_group> groups,
              std::shared_ptr<file_counters> per_file);

  // ---- In the engine thread ----

  // Completes with the next tensor in order; empty after the last.
  void next(waiting_ptr waiting) override;
  void cancel() noexcept override;

  // ---- From any thread ----

  void fill_stats(load_stats& s) const override;

 private:
  using clock = std::chrono::steady_clock;

  struct held_arena {
    std::weak_ptr<const tensor_storage> memory;
    std::uint64_t bytes;
  };

  // A group that was begun, until its memory is free again.
  struct begun {
    std::uint64_t bytes;        // Reserved; once the load is over, without arenas that are back.
    std::shared_ptr<job> load;  // Null once it is over.
    // Once all its tensors were handed out.
    std::vector<held_arena> memory;

    void forget_returned();
  };

  template <class Then>
  class answer;

  void fail_for_memory() noexcept;
  void go_on() noexcept;
  void take_steps();
  void begin_groups();
  void await_front();
  void arrived(const std::exception_ptr& failure, tensor one);
  void end_front();
  void release_ended();
  bool await_end();
  void hand_out(std::optional<tensor> one);
  void fail_all() noexcept;
  void set_failure(const boost::system::error_code& code) noexcept;
  void forget(std::uint64_t id);
  std::uint64_t live_bytes();
  std::int64_t nanoseconds() const noexcept;

  const std::shared_ptr<engine> engine_;
  const std::unique_ptr<const manifest> listed_;  // Our own copy; or null.
  const load_request request_;
  const std::shared_ptr<const named_catalog> chosen_;
  const std::vector<window_group> groups_;
  const std::shared_ptr<file_counters> per_file_;  // Of all groups.

  // Touched by the engine thread only.
  struct waiter {
    std::uint64_t id;
    waiting_ptr operation;
  };
  std::deque<waiter> waiting_;
  std::uint64_t last_id_ = 0;
  std::optional<tensor> ready_;  // Came for somebody who no longer waits.
  bool awaiting_ = false;        // The front group is asked for its next tensor.
  std::deque<begun> begun_;      // In order; those that were handed out, too, while they live.
  std::size_t front_ = 0;        // Of begun_: the first that was not handed out.
  std::uint32_t next_group_ = 0;
  std::uint32_t next_tensor_ = 0;  // Of the front group.
  std::exception_ptr failure_;

  const clock::time_point constructed_ = clock::now();
  std::atomic<std::int64_t> first_at_ = 0;  // Nanoseconds after that; 0: not yet.
  std::atomic<std::int64_t> ended_at_ = 0;
  mutable std::mutex mutex_;
  load_stats ended_;                        // Sum of groups that are over. Guarded by the mutex.
  std::vector<std::shared_ptr<job>> live_;  // Those that are not. Guarded by the mutex.
};

}  // namespace ringload::inline v0::detail
