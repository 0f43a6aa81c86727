// SPDX-License-Identifier: Apache-2.0
#pragma once

// One save, as the engine sees it: which writes are taken or in flight, why it stopped, who waits.
// Its files are published by save.cpp, once it is quiet and has not stopped.

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
  save_job(std::shared_ptr<engine> e, save_request what);

  // ---- Any thread ----

  const std::shared_ptr<engine> the_engine;
  void cancel() noexcept;
  bool stopped() const noexcept { return outcome_.stopped(); }
  const std::atomic<bool>& stop_flag() const noexcept { return outcome_.stop_flag(); }
  const save_request& request() const noexcept { return request_; }
  const save_options& how() const noexcept { return request_.how; }

  // ---- In the engine thread only, from here on ----

  // The writes may now be taken.
  void begin(save_setup setup);
  written_file& file(const write_op& op) noexcept { return work_.files.files()[op.file]; }
  const std::shared_ptr<write_group>& group() const noexcept { return work_.all; }

  // The writes, as work. A write that was taken is in flight until end().
  offer take(bool awaited) override;
  boost::asio::awaitable<void> run(work_step step, result<void>& outcome) override;
  void end(std::uint32_t write, const result<void>& outcome) override;

  // Counts what was written.
  void count(std::uint32_t bytes, bool direct, bool straight) noexcept;

  // The digests, which are made beside the writes, as work of its own.
  std::shared_ptr<work> digests() { return {shared_from_this(), &digest_work_}; }

  // Completes with the result when the save is over. Cancelling it cancels the save.
  void await(std::unique_ptr<operation<save_result>> waiting);

  // Takes no more writes; those in flight are waited for. The first reason is kept. Once the files
  // are being published only a failure of that stops it.
  void stop(fault why);
  void stop_from_outside(fault why) noexcept;
  void stop_at_close() override;
  // All is written, or it has stopped; and nothing is in flight.
  bool quiet() const noexcept;
  boost::asio::awaitable<void> until_quiet() { return quiet_.wait(); }

  // For a thread that may block: to publish or to remove them, and to let go of tensors.
  save_files release_files() noexcept;
  struct remains {
    std::shared_ptr<write_group> group;
    std::vector<tensor_ref> tensors;
  };
  remains release_tensors() noexcept;
  void set_paths(std::vector<std::string> paths) noexcept { result_.files = std::move(paths); }

  // Completes the operation that waits, with the result or with the failure.
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
    return begun_ && written_ == work_.all->plan.writes.size() &&
           digested_ == result_.digests.size();
  }
  void wake_if_quiet();

  save_request request_;  // Its tensors are released when it is over.
  const std::chrono::steady_clock::time_point begun_at_ = std::chrono::steady_clock::now();
  stop_state outcome_;

  // Touched by the engine thread only.
  save_setup work_;
  bool begun_ = false;
  std::uint32_t next_ = 0;  // The write that is taken next.
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

// Begins the save; in the engine thread.
void run_save(const std::shared_ptr<save_job>& one);

}  // namespace ringload::inline v0::detail
