// SPDX-License-Identifier: Apache-2.0
#pragma once

// The state of one save in the engine: the writes in flight, the stop cause and the waiting
// operation. save.cpp publishes the files when the save is quiet and has not stopped.

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <ringload/detail/operation.hpp>
#include <ringload/save.hpp>
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

  // ---- Any thread ----

  const std::shared_ptr<engine> the_engine;
  void cancel() noexcept;
  bool stopped() const noexcept { return outcome_.stopped(); }
  const std::atomic<bool>& stop_flag() const noexcept { return outcome_.stop_flag(); }
  const save_request& request() const noexcept { return request_; }
  const save_options& options() const noexcept { return request_.options; }

  // ---- Engine thread only ----

  // Makes the writes available to take().
  void begin(save_setup setup);
  written_file& file(const write_op& op) noexcept { return work_.files.files()[op.file]; }
  const std::shared_ptr<write_group>& group() const noexcept { return work_.group; }

  // The writes as work of the schedule. A taken write is in flight until end().
  offer take(bool awaited) override;
  boost::asio::awaitable<void> run(work_step step, result<void>& outcome) override;
  void end(std::uint32_t write, const result<void>& outcome) override;

  // Adds one completed write to the result.
  void count(std::uint32_t bytes, bool direct, bool straight) noexcept;

  // The digests as a separate work, computed concurrently with the writes.
  std::shared_ptr<work> digests() { return {shared_from_this(), &digest_work_}; }

  // Completes `waiting` with the result when the save ends. Cancelling `waiting` cancels the save.
  void await(std::unique_ptr<operation<save_result>> waiting);

  // Stops taking writes. Writes in flight still complete. Keeps the first cause. During publishing,
  // only a failure to publish stops the save.
  void stop(fault cause);
  void stop_from_outside(fault cause) noexcept;
  void stop_at_close() override;
  // Returns true if no write or digest is in flight, and the save is complete or stopped.
  bool quiet() const noexcept;
  boost::asio::awaitable<void> until_quiet() { return quiet_.wait(); }

  // Hands files and tensors over to a thread that may block.
  save_files release_files() noexcept;
  struct remains {
    std::shared_ptr<write_group> group;
    std::vector<tensor_ref> tensors;
  };
  remains release_tensors() noexcept;
  void set_paths(std::vector<std::string> paths) noexcept { result_.files = std::move(paths); }

  // Completes the waiting operation with the result or the failure.
  void finish() noexcept;
  bool finished() const noexcept { return outcome_.finished(); }

 private:
  class digest_work final : public work {
   public:
    explicit digest_work(save_job& save) : save_(save) {}
    offer take(bool awaited) override;
    boost::asio::awaitable<void> run(work_step step, result<void>& outcome) override;
    void end(std::uint32_t tensor, const result<void>& outcome) override;

   private:
    save_job& save_;
  };

  bool all_written() const noexcept {
    return begun_ && written_ == work_.group->plan.writes.size() &&
           digested_ == result_.digests.size();
  }
  void wake_if_quiet();

  save_request request_;  // The tensors are released when the save ends.
  const std::chrono::steady_clock::time_point begun_at_ = std::chrono::steady_clock::now();
  stop_state outcome_;

  // Used by the engine thread only.
  save_setup work_;
  bool begun_ = false;
  std::uint32_t next_ = 0;  // Index of the next write for take().
  std::uint32_t in_flight_ = 0;
  std::uint32_t written_ = 0;
  digest_work digest_work_{*this};
  std::uint32_t next_digest_ = 0;
  std::uint32_t digesting_ = 0;
  std::uint32_t digested_ = 0;
  bool publishing_ = false;
  save_result result_;
  std::unique_ptr<operation<save_result>> waiting_;
  wait_queue quiet_;
};

// Starts the save. Must be called in the engine thread.
void run_save(const std::shared_ptr<save_job>& job);

}  // namespace ringload::inline v0::detail
