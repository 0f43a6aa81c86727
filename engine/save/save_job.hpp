// SPDX-License-Identifier: Apache-2.0
#pragma once

// The state of one save: its writes in flight, the cause of a stop, and the operation that waits
// for the save. The engine carries out the writes as steps of its workers (see worker.hpp). The
// coroutine in save.cpp publishes the files when all steps have ended.

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <ringload/detail/operation.hpp>
#include <ringload/save.hpp>
#include <stop_token>
#include <string>
#include <vector>

#include "base/fault.hpp"
#include "runtime/stop_state.hpp"
#include "runtime/wait_queue.hpp"
#include "runtime/work.hpp"
#include "save/save_setup.hpp"

namespace ringload::inline v0::detail {

class engine;

class save_job final : public work,
                       public engine_user,
                       public std::enable_shared_from_this<save_job> {
 public:
  save_job(std::shared_ptr<engine> owner, save_request request);

  // ---- May be called from any thread ----

  const std::shared_ptr<engine> the_engine;
  void cancel() noexcept;
  bool stopped() const noexcept { return stop_state_.stopped(); }
  const std::atomic<bool>& stop_flag() const noexcept { return stop_state_.stop_flag(); }
  std::stop_token stop_token() const noexcept { return stop_source_.get_token(); }
  const save_request& request() const noexcept { return request_; }
  const save_options& options() const noexcept { return request_.options; }

  // ---- Engine thread only ----

  // Takes over the open files and the plan. Afterwards, workers may take writes.
  void begin(save_setup setup);
  written_file& file(const write_op& op) noexcept { return setup_.files.files()[op.file]; }
  // A check thread that computes a digest may also call group().
  const std::shared_ptr<write_group>& group() const noexcept { return setup_.group; }

  // The interface `work`: the steps of the job are its writes. A write is in flight from
  // take_step() until end().
  offer take_step(bool awaited) override;
  boost::asio::awaitable<void> run(work_step& step, result<void>& outcome) override;
  void end(std::uint32_t write, const result<void>& outcome) override;

  void count_write(std::uint32_t bytes, bool direct, bool unstaged) noexcept;

  // The digests of the tensors are a separate `work`, so the digests are computed while the writes
  // run.
  std::shared_ptr<work> digests() { return {shared_from_this(), &digest_work_}; }

  // Sets the operation that waits for the save. A cancellation of the operation cancels the save.
  void await(std::unique_ptr<operation<save_result>> waiting);

  // Stops the save: no further write is started. Writes in flight still complete. Only the first
  // cause is stored. After release_files(), only a failed publication stops the save. A
  // cancellation then has no effect on a save into files. In an object store, a cancellation makes
  // the publication fail, unless the store has begun to replace the object.
  void stop(fault cause);
  void request_stop(fault cause) noexcept;
  void stop_at_close() override;
  // Returns true if the save is complete or stopped, and no write or digest is in progress.
  bool is_quiet() const noexcept;
  boost::asio::awaitable<void> until_quiet() { return quiet_.wait(); }

  // Moves the files out of the job, so that the caller can close the files in a thread that may
  // block.
  save_files release_files() noexcept;
  struct released_tensors {
    std::shared_ptr<write_group> group;
    std::vector<tensor_ref> tensors;
  };
  // Moves the tensors and their sources out of the job, so that the caller can destroy these
  // objects in a thread that may block.
  released_tensors release_tensors() noexcept;
  void set_paths(std::vector<std::string> paths) noexcept { result_.files = std::move(paths); }

  // Completes the waiting operation with the result or with the failure.
  void finish() noexcept;
  bool finished() const noexcept { return stop_state_.finished(); }

 private:
  class digest_work final : public work {
   public:
    explicit digest_work(save_job& save) : save_(save) {}
    offer take_step(bool awaited) override;
    boost::asio::awaitable<void> run(work_step& step, result<void>& outcome) override;
    void end(std::uint32_t tensor, const result<void>& outcome) override;

   private:
    save_job& save_;
  };

  bool all_written() const noexcept {
    return has_begun_ && writes_done_ == setup_.group->plan.writes.size() &&
           digests_done_ == result_.digests.size();
  }
  void wake_if_quiet();

  // Constant, except that release_tensors() moves the tensors out at the end of the save.
  save_request request_;
  const std::chrono::steady_clock::time_point start_time_ = std::chrono::steady_clock::now();
  stop_state stop_state_;
  std::stop_source stop_source_;  // Ends blocking calls to a store.

  // The following members belong to the engine thread. Other threads use these members only in
  // functions whose comment allows calls from other threads.
  save_setup setup_;
  bool has_begun_ = false;
  std::uint32_t next_write_ = 0;
  std::uint32_t writes_in_flight_ = 0;
  std::uint32_t writes_done_ = 0;
  digest_work digest_work_{*this};
  std::uint32_t next_digest_ = 0;
  std::uint32_t digests_in_flight_ = 0;
  std::uint32_t digests_done_ = 0;
  bool publishing_ = false;
  save_result result_;
  std::unique_ptr<operation<save_result>> waiting_;
  wait_queue quiet_;
};

// Starts the coroutine of the save. Must be called in the engine thread.
void run_save(const std::shared_ptr<save_job>& job);

}  // namespace ringload::inline v0::detail
