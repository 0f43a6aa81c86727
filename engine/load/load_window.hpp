// SPDX-License-Identifier: Apache-2.0
#pragma once

// A load that uses a limited amount of memory, which is called the window. The chosen tensors are
// divided into groups. Each group is loaded by a job of its own. Groups are started in order.
//
//   groups    |--0--|--1--|--2--|--3--|--4--|--5--| ...
//             freed     held      loading    not started
//
// While the caller waits for a tensor, the next groups are started if their memory fits into the
// window. A group occupies memory of the window while the group is loaded, and afterwards while the
// caller holds tensors of the group. A group of several tensors needs at most a sixteenth of the
// window, so that many groups are loaded at the same time. A tensor that needs more memory is a
// group of its own.

#include <boost/asio/steady_timer.hpp>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <ringload/load_operation.hpp>
#include <vector>

#include "base/fault.hpp"
#include "catalog/opened_checkpoint.hpp"
#include "load/delivery.hpp"
#include "load/load_counters.hpp"
#include "load/window_groups.hpp"
#include "request/request.hpp"

namespace ringload::inline v0::detail {

class engine;
class tensor_storage;

class load_window final : public tensor_sequence, public std::enable_shared_from_this<load_window> {
 public:
  using waiting_ptr = std::unique_ptr<operation<std::optional<tensor>>>;

  load_window(std::shared_ptr<engine> e, load_request request,
              std::shared_ptr<const named_catalog> chosen, std::vector<window_group> groups,
              std::shared_ptr<load_counters> counters);

  void next(waiting_ptr waiting) override;
  void cancel() noexcept override;

 private:
  struct held_arena {
    std::weak_ptr<const tensor_storage> memory;
    std::uint64_t bytes;
  };

  // A group that has started and whose memory is not freed yet.
  struct started_group {
    // Before all tensors are delivered: an upper bound of the group's memory. Afterwards: the size
    // of the arenas that the caller holds.
    std::uint64_t bytes;
    std::shared_ptr<job> load;  // Null after the end of the job.
    // The ended job. Its coroutine can keep the job and the arenas alive for a short time.
    std::weak_ptr<job> ended;
    // The arenas of the group. Set when all its tensors were delivered.
    std::vector<held_arena> memory;

    void erase_freed_arenas();
  };

  template <class OnCompletion>
  class job_handler;

  void fail_for_memory() noexcept;
  void advance() noexcept;
  void serve_waiting();
  void begin_groups();
  void await_front();
  void on_front_tensor(tensor next_tensor);
  void end_front();
  void release_ended();
  bool await_end();
  bool await_release();
  void deliver(std::optional<tensor> next_tensor);
  void fail_all() noexcept;
  void set_failure(const boost::system::error_code& code) noexcept;
  void cancel_wait(std::uint64_t id);
  // Erases the groups whose memory is freed. Returns the sum of the sizes of the other groups.
  std::uint64_t erase_freed_groups();

  const std::shared_ptr<engine> engine_;
  // Copy of the checksum list of the options. Null if the options have no list.
  const std::unique_ptr<const checksum_list> checksums_;
  const load_request request_;
  const std::shared_ptr<const named_catalog> chosen_;
  const std::vector<window_group> groups_;
  const std::shared_ptr<load_counters> counters_;  // Shared by the jobs of all groups.

  // Only the engine thread uses the members below.
  struct waiter {
    std::uint64_t id;
    waiting_ptr operation;
  };
  std::deque<waiter> waiting_;
  std::uint64_t last_id_ = 0;
  // A tensor that was loaded and not delivered yet.
  std::optional<tensor> ready_;
  // True while the window waits for a tensor of the front group (see front_), for the end of a job,
  // or for the memory of an ended job.
  bool awaiting_ = false;
  boost::asio::steady_timer release_timer_;  // Delays the next look at the memory of ended jobs.
  // Started groups in order. A delivered group is listed until its memory is freed.
  std::deque<started_group> started_groups_;
  // Index in started_groups_ of the first group that is not completely delivered (the front group).
  std::size_t front_ = 0;
  std::uint32_t next_group_ = 0;
  std::uint32_t next_tensor_ = 0;  // Index, in the front group, of the next tensor to deliver.
  std::optional<fault> failure_;
};

}  // namespace ringload::inline v0::detail
