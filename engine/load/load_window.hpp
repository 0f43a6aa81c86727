// SPDX-License-Identifier: Apache-2.0
#pragma once

// A load through bounded memory. The chosen tensors are loaded in order, in groups. Each group is a
// separate load.
//
//   groups    |--0--|--1--|--2--|--3--|--4--|--5--| ...
//               freed    held      in flight   to come
//
// A group is started as soon as its memory fits into the window. The groups in flight, and groups
// whose tensors the caller still holds, take memory of the window. A group is a small part of the
// window, so that many groups are in flight at once. A larger tensor is a group of its own.

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

  load_window(std::shared_ptr<engine> e, load_request request,
              std::shared_ptr<const named_catalog> chosen, std::vector<window_group> groups,
              std::shared_ptr<file_counters> per_file);

  // ---- In the engine thread ----

  // Completes with the next tensor in order, or with an empty optional after the last tensor.
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

  // A started group, until its memory is freed.
  struct begun {
    std::uint64_t bytes;        // Reserved bytes. After the load, without freed arenas.
    std::shared_ptr<job> load;  // Null after the load.
    // Set when all tensors of the group are handed out.
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
  void arrived(const std::exception_ptr& failure, tensor next_tensor);
  void end_front();
  void release_ended();
  bool await_end();
  void hand_out(std::optional<tensor> next_tensor);
  void fail_all() noexcept;
  void set_failure(const boost::system::error_code& code) noexcept;
  void forget(std::uint64_t id);
  std::uint64_t live_bytes();
  std::int64_t nanoseconds() const noexcept;

  const std::shared_ptr<engine> engine_;
  const std::unique_ptr<const manifest> listed_;  // Copy of the list in the options, or null.
  const load_request request_;
  const std::shared_ptr<const named_catalog> chosen_;
  const std::vector<window_group> groups_;
  const std::shared_ptr<file_counters> per_file_;  // Shared by all groups.

  // Used by the engine thread only.
  struct waiter {
    std::uint64_t id;
    waiting_ptr operation;
  };
  std::deque<waiter> waiting_;
  std::uint64_t last_id_ = 0;
  std::optional<tensor> ready_;  // Arrived after its operation was cancelled.
  bool awaiting_ = false;        // A tensor of the front group, or the end of a load, is awaited.
  std::deque<begun> begun_;  // In order. Includes handed-out groups until their memory is freed.
  std::size_t front_ = 0;    // Index in begun_ of the first group that is not handed out.
  std::uint32_t next_group_ = 0;
  std::uint32_t next_tensor_ = 0;  // Index in the front group.
  std::exception_ptr failure_;

  const clock::time_point constructed_ = clock::now();
  std::atomic<std::int64_t> first_at_ = 0;  // Nanoseconds after constructed_, or 0.
  std::atomic<std::int64_t> ended_at_ = 0;
  mutable std::mutex mutex_;
  load_stats ended_;                        // Sum of groups that are over. Guarded by the mutex.
  std::vector<std::shared_ptr<job>> live_;  // Loads that are not over. Guarded by the mutex.
};

}  // namespace ringload::inline v0::detail
