// SPDX-License-Identifier: Apache-2.0
#pragma once

// One load: which of its reads are to be made next, which tensors have landed, who waits for what.

#include <atomic>
#include <chrono>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <ringload/loading.hpp>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "core/fault.hpp"
#include "pipeline/open.hpp"
#include "pipeline/tensor_storage.hpp"
#include "pipeline/wait_queue.hpp"

namespace ringload::inline v0::detail {

class engine;

class job : public std::enable_shared_from_this<job> {
 public:
  using clock = std::chrono::steady_clock;

  job(std::shared_ptr<engine> e, std::string source, load_options options);

  // Never changed.
  const std::shared_ptr<engine> the_engine;
  const std::string source;
  const std::unique_ptr<const manifest> verify;  // Our own copy; null: nothing is checked.
  const load_options options;                    // Its `verify` is ours.

  // ---- From any thread ----

  void cancel() noexcept;
  load_stats progress() const;
  // Valid once the load has started, which whoever holds a `loading` knows.
  const named_catalog& named() const noexcept { return *named_; }

  // ---- In the engine thread only, from here on ----

  // The reads may now be taken.
  void begin(opened_load work);
  const open_file& file(const read_op& read) const noexcept { return files_[read.file]; }
  const read_op& read(std::uint32_t index) const noexcept { return plan_.reads[index]; }
  std::span<const copy_op> copies(const read_op& read) const noexcept {
    return std::span(plan_.copies).subspan(read.copies_begin, read.copies_end - read.copies_begin);
  }
  arena& memory() const noexcept { return storage_->memory(); }
  // "model.safetensors: tensor 'wte.weight': byte 4,096", for what went wrong there.
  std::string place(const read_op& read, std::uint64_t file_offset) const;

  // The next read that somebody awaits, and the next in file order. Taken reads are in flight until
  // completed() or failed() is told.
  std::optional<std::uint32_t> take_awaited();
  std::optional<std::uint32_t> take_next();

  void completed(std::uint32_t read);
  void failed(fault why) noexcept;
  // Nothing more is taken; what is in flight is waited for. The first reason is the one that
  // counts.
  void stop(fault why);
  // From any thread.
  bool stopped() const noexcept { return stopped_; }

  // What its bytes must hash to, and where. From any thread, as long as the tensor is not told of.
  const tensor_digest& expected(std::uint32_t t) const noexcept { return *expected_[t]; }
  std::uint64_t arena_offset(std::uint32_t t) const noexcept {
    return storage_->where(t).arena_offset;
  }
  // "model.safetensors: tensor 'wte.weight'"
  std::string tensor_in_file(std::uint32_t t) const;
  // The next tensor to be hashed that somebody awaits, and the next of those that have arrived. Its
  // check is under way until checked() is told that the bytes are as they should be, or why not.
  std::optional<std::uint32_t> take_awaited_check();
  std::optional<std::uint32_t> take_next_check();
  void checked(std::uint32_t t, const result<void>& how);

  // Everything has landed, or the load has stopped and nothing is in flight.
  bool quiet() const noexcept {
    return in_flight_ == 0 && checking_ == 0 && !prefaulting_ && (stopped_ || all_loaded());
  }
  boost::asio::awaitable<void> until_quiet() { return ended_.wait(); }

  // One coroutine at most makes the arena's memory ready ahead of the reads. True for who is to
  // begin it; it ends early when nobody needs what is left.
  bool begin_prefault() noexcept {
    const bool first = !prefault_begun_;
    if (first) prefault_begun_ = prefaulting_ = true;
    return first;
  }
  bool needs_prefault() const noexcept { return !stopped_ && !all_loaded(); }
  void end_prefault();
  std::uint64_t arena_bytes() const noexcept { return plan_.arena_bytes; }

  // The operations of the public face. Cancelling the first two ends the wait, the others the load.
  void await_tensor(std::uint32_t t, std::unique_ptr<operation<tensor>> waiting);
  void await_next(std::unique_ptr<operation<std::optional<tensor>>> waiting);
  void await_finish(std::unique_ptr<operation<model>> waiting);
  void await_start(std::unique_ptr<operation<loading>> waiting);

  void complete_start();
  // The memory of a load that has failed, to be let go of where that may take long; tensors that
  // were handed out keep it.
  std::shared_ptr<const tensor_storage> release_storage() noexcept { return std::move(storage_); }
  void release_storage_if_stopped() noexcept {
    if (stopped_) storage_.reset();
  }
  std::vector<open_file> take_files() noexcept { return std::move(files_); }
  // Answers everybody who waits or will wait: with the model, or with why there is none.
  void finish() noexcept;
  bool finished() const noexcept { return finished_; }

  // Counted by the workers.
  std::atomic<std::uint64_t> bytes_direct = 0;
  std::atomic<std::uint64_t> bytes_buffered = 0;
  std::atomic<std::uint64_t> bytes_straight = 0;
  std::atomic<std::uint64_t> reads = 0;
  std::atomic<std::uint64_t> short_reads = 0;
  std::atomic<std::uint64_t> retries = 0;
  std::atomic<std::uint64_t> device_wait_nanoseconds = 0;
  std::atomic<std::uint64_t> memory_wait_nanoseconds = 0;
  // Direct reads were promised, and then refused: from here on this load goes without.
  void refuse_direct(const std::string& why);
  bool direct_refused() const noexcept { return direct_refused_; }

 private:
  template <class T>
  struct waiter {
    std::uint64_t id;
    std::unique_ptr<operation<T>> answer;
  };
  // Ids ascend from front to back.
  template <class T>
  using waiters = std::deque<waiter<T>>;

  template <class T>
  void answer_all(waiters<T>& line, const T& with_what) noexcept;
  template <class T>
  void cancel_wait(waiters<T>& line, std::uint64_t id);

  void stop_cancelled() noexcept;
  bool all_loaded() const noexcept { return begun_reading_ && order_.size() == missing_.size(); }
  bool feeds(std::uint32_t read, std::uint32_t t) const noexcept;
  void bytes_complete(std::uint32_t t);
  void prioritize_check(std::uint32_t t);
  // The first that has not been taken.
  std::optional<std::uint32_t> take(std::deque<std::uint32_t>& of, std::vector<bool>& taken,
                                    std::uint32_t& under_way) const;
  void tensor_loaded(std::uint32_t t);
  void complete_next_waiters();
  void await_reads(const placement& of);
  std::exception_ptr failure() const noexcept {
    try {
      return to_exception(fault_);
    } catch (const std::bad_alloc&) {
      return std::make_exception_ptr(std::bad_alloc());
    }
  }
  std::int64_t since_begun() const noexcept;

  const clock::time_point begun_ = clock::now();

  // Set by begin(), never changed after.
  std::shared_ptr<const named_catalog> named_;
  plan plan_;  // Without `tensors`, which are in storage_.
  std::vector<const tensor_digest*> expected_;

  // Touched by the engine thread only.
  std::vector<open_file> files_;
  std::shared_ptr<tensor_storage> storage_;  // Null before begin() and after a failure.
  bool begun_reading_ = false;
  std::uint32_t next_read_ = 0;
  std::deque<std::uint32_t> awaited_reads_;  // At most every read once for each time it is awaited.
  std::vector<bool> taken_;                  // By read.
  std::uint32_t in_flight_ = 0;              // Taken and not told of; at most one for each worker.
  std::vector<std::uint32_t> missing_;       // By tensor: reads that it still needs, and its check.
  bool prefault_begun_ = false;
  bool prefaulting_ = false;    // Some of the arena is being made ready.
  std::uint32_t checking_ = 0;  // Tensors whose check was taken and not told of.
  // Tensors to be hashed: those that somebody awaits, once for each time; and as they arrived.
  std::deque<std::uint32_t> awaited_checks_;
  std::deque<std::uint32_t> checks_;
  std::vector<bool> check_taken_;       // By tensor.
  std::vector<std::uint32_t> order_;    // Tensors as they landed.
  std::uint32_t handed_out_ = 0;        // Of order_, to those who await the next.
  std::atomic<bool> stopped_ = false;   // Read by any thread.
  std::atomic<bool> finished_ = false;  // Read by any thread.
  bool direct_refused_ = false;
  fault fault_;  // Why it stopped, if it did.
  wait_queue ended_;
  std::uint64_t last_id_ = 0;
  std::unique_ptr<operation<loading>> start_;
  std::unordered_map<std::uint32_t, waiters<tensor>> tensor_waiters_;
  waiters<std::optional<tensor>> next_waiters_;
  waiters<model> finish_waiters_;

  // Read by any thread.
  std::atomic<std::uint64_t> bytes_ = 0;
  std::atomic<std::uint64_t> bytes_total_ = 0;
  std::atomic<std::uint64_t> tensors_ = 0;
  std::atomic<std::uint64_t> bytes_verified_ = 0;
  std::atomic<std::uint64_t> tensors_total_ = 0;
  std::atomic<bool> memory_kept_ = false;
  std::atomic<std::int64_t> opened_at_ = 0;  // Nanoseconds after begun_; 0: not yet.
  std::atomic<std::int64_t> first_at_ = 0;
  std::atomic<std::int64_t> ended_at_ = 0;
  mutable std::mutex reason_mutex_;
  std::string route_reason_;  // Guarded by the mutex.
};

}  // namespace ringload::inline v0::detail
