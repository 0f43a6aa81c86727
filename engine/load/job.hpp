// SPDX-License-Identifier: Apache-2.0
#pragma once

// The state of one load. The workers of the engine carry out the reads of a job. A job combines
// these classes:
//
//   plan_progress   which reads are left or in flight, and which tensors are complete
//   check_queue     tensors whose digest or indices must be checked
//   load_drives     the drives of the files, each with a limit on its workers
//   load_delivery   the operations that wait for tensors, for the start or for the end
//   load_counters   statistics of the load and of each file
//   stop_state      whether and why the load was stopped, and whether it has finished
//   fill_state      only for a fill (a load into the caller's memory)

#include <boost/asio/steady_timer.hpp>
#include <cstdint>
#include <memory>
#include <optional>
#include <ringload/load_operation.hpp>
#include <span>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

#include "base/fault.hpp"
#include "io/io_queue.hpp"
#include "load/delivery.hpp"
#include "load/load_counters.hpp"
#include "load/load_drives.hpp"
#include "load/open.hpp"
#include "load/plan_progress.hpp"
#include "load/storage_reads.hpp"
#include "load/stream_state.hpp"
#include "load/tensor_storage.hpp"
#include "request/check_queue.hpp"
#include "runtime/decoders.hpp"
#include "runtime/stop_state.hpp"
#include "runtime/wait_queue.hpp"
#include "runtime/work.hpp"

namespace ringload::inline v0::detail {

class engine;

class job final : public work, public engine_user, public std::enable_shared_from_this<job> {
 public:
  // A load with a window divides its tensors into groups, and each group has a job of its own. For
  // such a job, `window_counters` is the object that the jobs of all groups share. Otherwise it is
  // null, and the job has its own counters.
  job(std::shared_ptr<engine> e, load_request request,
      std::shared_ptr<load_counters> window_counters = nullptr);

  const std::shared_ptr<engine> the_engine;
  const std::string source;  // Name of the checkpoint, for errors.
  // Copy of the checksum list of the options. Null if the options have no list.
  const std::unique_ptr<const checksum_list> checksums;
  const load_request& request() const noexcept { return request_; }
  const load_options& options() const noexcept { return request_.options; }

  // ---- May be called from any thread ----

  void cancel() noexcept;
  load_stats progress() const;
  // named() and per_file() must not be called before the load has started.
  const named_catalog& named() const noexcept { return *named_; }
  file_counters& per_file() const noexcept { return *counters.per_file; }
  bool stopped() const noexcept { return outcome_.stopped(); }
  const std::atomic<bool>& stop_flag() const noexcept { return outcome_.stop_flag(); }
  // Returns a token that signals that the load has stopped. The signal cancels pending requests to
  // an object store.
  const std::stop_token& stop_token() const noexcept { return stop_token_; }
  // True if this job loads one group of tensors of a load with a window.
  const bool is_window_group;
  const std::shared_ptr<load_counters> shared_counters;
  load_counters& counters = *shared_counters;
  load_delivery delivery{*this};

  // Other threads may call check_of() and placement_of() only while tensor `t` is being checked.
  const tensor_check& check_of(std::uint32_t t) const noexcept { return checks_.check_of(t); }
  const placement& placement_of(std::uint32_t t) const noexcept {
    return storage_->tensors().where(t);
  }
  // Returns a text such as "model.safetensors: tensor 'wte.weight'".
  std::string tensor_in_file(std::uint32_t t) const;

  // ---- All functions below: engine thread only, unless stated otherwise ----

  // Sets the state of a fill. Must be called before begin(). If the load fails before begin(),
  // fill_state::failure() computes the error from this state.
  void set_fill(fill_state fill) { fill_ = std::move(fill); }
  // Takes over the opened files and the plan. Afterwards, workers may take reads.
  void begin(opened_load opened);
  const open_file& file(const read_op& read) const noexcept {
    return checkpoint_->files[read.file];
  }
  // Returns the function that supplies the bytes of the read. Returns null if the bytes are read
  // from a file or from an object of a store.
  const byte_supply* supply(const read_op& read) const noexcept;
  // Returns true if the bytes of the read should not stay in the page cache.
  bool is_uncached(const read_op& read) const noexcept {
    return !uncached_files_.empty() && uncached_files_[read.file];
  }
  const read_op& read(std::uint32_t index) const noexcept { return plan_.reads[index]; }
  std::span<const copy_op> copies(const read_op& read) const noexcept {
    return std::span(plan_.copies).subspan(read.copies_begin, read.copies_end - read.copies_begin);
  }
  std::span<const strided_map> maps() const noexcept { return plan_.maps; }
  const destinations& destination_memory() const noexcept { return destination_memory_; }
  // memory() returns the memory of one destination, and must not be called for a fill. Check
  // threads may call destination_memory() and memory() while they check a tensor. arenas() returns
  // the memory of all destinations. The result of arenas() is empty for a fill, before begin(), and
  // after the memory was released.
  arena& memory(std::uint32_t n) const noexcept { return storage_->memory(n); }
  std::span<const std::shared_ptr<const tensor_storage>> arenas() const noexcept {
    if (!storage_) return {};
    return storage_->arenas();
  }
  bool is_fill() const noexcept { return fill_.has_value(); }
  // A read, a copy or a decoder must call these functions before and after it uses a destination. A
  // stopped fill does not complete while a destination is in use, because the caller may free the
  // destinations after completion.
  void begin_use_of_destinations() noexcept { ++uses_of_destinations_; }
  void end_use_of_destinations() noexcept {
    --uses_of_destinations_;
    fail_waiting_after_limit();
  }
  // Records that a fill may have written bytes. A later failure then reports incomplete tensors.
  void begin_writing() noexcept {
    if (fill_) fill_->writing = true;
  }
  std::string_view first_tensor(const read_op& read) const noexcept;
  std::string_view first_tensor_of_stream(std::uint32_t s) const noexcept {
    return storage_->tensors().info(plan_.outputs[plan_.streams[s].outputs_begin].tensor).name;
  }
  // Returns the place of an error, such as "model.safetensors: tensor 'wte.weight': byte 4,096". If
  // the load has stopped, returns an empty string, because only the first error is reported.
  std::string error_place(const read_op& read, std::uint64_t file_offset) const;

  std::span<const feed_op> feeds(const read_op& read) const noexcept {
    return std::span(plan_.feeds).subspan(read.feeds_begin, read.feeds_end - read.feeds_begin);
  }
  // The first call for an index creates the stream.
  running_stream& stream(std::uint32_t s);
  // Returns true if `feed` contains the last stored bytes of its stream.
  bool ends_stream(const feed_op& feed) const noexcept {
    const stored_stream& stored = *stored_streams_[plan_.streams[feed.stream].stream].stored;
    return feed.stream_offset + feed.bytes == stored.bytes;
  }
  void stream_decoded(std::uint32_t s);
  std::string stream_place(std::uint32_t s) const;

  // The interface `work`: the steps of a job are its reads. A read is in flight from take_step()
  // until end().
  offer take_step(bool awaited) override;
  boost::asio::awaitable<void> run(work_step& step, result<void>& outcome) override;
  void end(std::uint32_t read, const result<void>& outcome) override;
  // Returns the admission control of the read's drive, which limits the bytes in flight. Must not
  // be called if the bytes of the read are in memory.
  admission_control& admission_of(const read_op& read) const noexcept {
    return drives_.drive_of(read.file)->admission;
  }
  bool is_on_distant_mount(const read_op& read) const noexcept {
    const drive* const source_drive = drives_.drive_of(read.file);
    return source_drive != nullptr && source_drive->admission.finds_late_reads();
  }

  // Makes all later reads of the load buffered.
  void refuse_direct(const std::string& reason);
  bool direct_refused() const noexcept { return direct_refused_; }
  // Returns the bytes of the read if these bytes are in host memory that is registered with the
  // GPU. Otherwise returns null. The GPU copies from registered memory directly, so such a read
  // needs no slot.
  const std::byte* registered_memory(const read_op& read) const noexcept;
  // Returns the GPUDirect Storage function of the file, or null if the file must be read into host
  // memory first.
  const byte_supply* storage_supply(const read_op& read) const noexcept {
    if (!storage_reads_ || storage_refused_) return nullptr;
    return &storage_reads_->supply(read.file);
  }
  // Makes all later reads of the load use host memory.
  void refuse_storage(const std::string& reason);
  // Returns the object that contains the files registered with GPUDirect Storage, so that the
  // caller can destroy it in a thread that may block.
  std::unique_ptr<storage_reads> release_storage_reads() noexcept {
    return std::move(storage_reads_);
  }

  // Returns true at the first call only. In this case, the caller must start a coroutine that
  // populates the memory of the tensors before reads write to this memory. The coroutine must stop
  // when needs_prefault() returns false. At its end, the coroutine must call end_prefault().
  bool begin_prefault() noexcept {
    const bool first = !prefault_begun_;
    if (first) prefault_begun_ = prefaulting_ = true;
    return first;
  }
  bool needs_prefault() const noexcept { return !stopped() && !all_loaded(); }
  void end_prefault();

  // load_delivery uses the next functions. tensors(), tensor_at() and take_loaded() must not be
  // called before begin().
  const loaded_tensors& tensors() const noexcept { return storage_->tensors(); }
  tensor tensor_at(std::uint32_t t) const { return storage_->tensor_at(t); }
  model loaded_model() const { return model(storage_); }
  bool is_loaded(std::uint32_t t) const noexcept { return progress_ && progress_->is_loaded(t); }
  std::optional<std::uint32_t> take_loaded();
  // Makes the reads or the check of a tensor the next steps of the load.
  void prioritize(std::uint32_t t);
  fill_state* fill_progress() noexcept { return fill_ ? &*fill_ : nullptr; }
  std::shared_ptr<const opened_checkpoint> release_opened() noexcept {
    return std::move(checkpoint_);
  }
  const stop_state& outcome() const noexcept { return outcome_; }

  // Stops the load: no further read or check is started. The load ends when all reads and checks in
  // flight have ended. Its operations complete at that time, or when loader_options::stop_time_max
  // has passed. A fill also waits until its destinations are not in use. Only the first cause is
  // kept.
  void stop(fault cause);
  void stop_at_close() override;
  void stop_cancelled() noexcept;
  // Returns true if the load is complete or stopped, and no read, check or prefault is in progress.
  bool is_quiet() const noexcept;
  boost::asio::awaitable<void> until_quiet() { return quiet_waiters_.wait(); }

  // Returns the files, or null if no files are open. The caller can close the files in a thread
  // that may block.
  std::shared_ptr<const opened_checkpoint> opened() const noexcept { return checkpoint_; }
  void release_files() noexcept { checkpoint_.reset(); }
  // A fill or a copy uses memory of the caller and keeps the owners of this memory alive.
  // release_borrowed() must be called after the last access to the memory, in a thread that may
  // block.
  bool borrows_memory() const noexcept { return borrows_memory_; }
  void release_borrowed() noexcept {
    is_released_ = true;
    request_.fill.reset();
    request_.copy.reset();
  }
  // Returns the job's reference to the memory of the tensors. After a failure, the caller can thus
  // free the memory in a thread that may block. Tensors that the program still has keep their
  // memory alive.
  std::shared_ptr<const model_storage> release_storage() noexcept { return std::move(storage_); }
  void release_storage_if_stopped() noexcept {
    if (stopped()) storage_.reset();
  }
  // Completes all waiting operations with the result or with the failure. Operations that start
  // later complete at once.
  void finish() noexcept;
  bool finished() const noexcept { return outcome_.finished(); }

 private:
  // The interface `work` for checks: each step checks one tensor that has all its bytes.
  class check_work final : public work {
   public:
    explicit check_work(job& load) : load_(load) {}
    offer take_step(bool awaited) override;
    boost::asio::awaitable<void> run(work_step& step, result<void>& outcome) override;
    void end(std::uint32_t tensor, const result<void>& outcome) override;

   private:
    job& load_;
  };
  std::shared_ptr<work> checking() { return {shared_from_this(), &check_work_}; }

  bool all_loaded() const noexcept { return progress_ && progress_->all_loaded(); }
  void wake_if_quiet();
  // Limits the time that a stopped load waits for its reads, see loader_options::stop_time_max.
  void limit_wait() noexcept;
  // Fails the waiting operations if the limit has passed, unless the load is a fill whose
  // destinations are in use.
  void fail_waiting_after_limit() noexcept;
  void completed(std::uint32_t read);
  void on_bytes_complete(std::uint32_t t);
  void on_check_passed(std::uint32_t t);
  void prioritize_check(std::uint32_t t);
  void on_tensor_loaded(std::uint32_t t);

  std::stop_source stop_source_;
  const std::stop_token stop_token_ = stop_source_.get_token();

  // Constant, except that release_borrowed() resets `fill` and `copy`.
  load_request request_;
  const bool borrows_memory_ = request_.fill || request_.copy;
  std::atomic<bool> is_released_ = false;  // True after the call of release_borrowed().

  // begin() sets named_, plan_ and destination_memory_. Afterwards these members are constant.
  std::shared_ptr<const named_catalog> named_;
  // `plan_.tensors` is empty, because storage_ contains the placements of the tensors.
  plan plan_;
  destinations destination_memory_;

  // Only the engine thread uses the members below, except in the functions above that other threads
  // may call.
  std::shared_ptr<const opened_checkpoint> checkpoint_;  // Null before begin() and after the load.
  // Null before begin(), and after release_storage() or release_storage_if_stopped().
  std::shared_ptr<model_storage> storage_;
  std::optional<plan_progress> progress_;  // Empty before begin().
  load_drives drives_;
  std::optional<fill_state> fill_;  // Empty before set_fill() and if the load is not a fill.
  check_queue checks_;
  check_work check_work_{*this};
  stop_state outcome_;
  std::optional<boost::asio::steady_timer> stop_timer_;  // Empty until the load is stopped.
  bool limit_passed_ = false;                            // True after `stop_timer_` has expired.
  std::uint32_t uses_of_destinations_ = 0;
  // Indexed by file. Empty if the bytes of all files may stay in the page cache.
  std::vector<bool> uncached_files_;
  std::vector<plan_input_builder::stream> stored_streams_;  // Indexed like plan_input::streams.
  // Indexed like plan::streams. Null if the stream has not started.
  std::vector<std::unique_ptr<running_stream>> streams_;
  // Null if GPUDirect Storage is not used.
  std::unique_ptr<storage_reads> storage_reads_;
  bool storage_refused_ = false;
  bool direct_refused_ = false;
  bool prefault_begun_ = false;
  bool prefaulting_ = false;
  wait_queue quiet_waiters_;
};

// Starts the coroutine of the load. Engine thread only.
void run_job(const std::shared_ptr<job>& load);

}  // namespace ringload::inline v0::detail
