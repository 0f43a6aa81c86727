// SPDX-License-Identifier: Apache-2.0
#pragma once

// One load. A job holds the parts of a load's state and connects the parts:
//
//   plan_progress   the taken reads, the reads in flight, and the missing bytes of each tensor
//   check_queue     the tensors to be hashed
//   load_drives     the drives of the files, which bound the number of workers
//   load_delivery   the operations that wait for tensors, the start or the end
//   load_counters   the statistics, for any thread. file_counters has the statistics of each file
//   stop_state      the cause of a stop, and whether the load is over
//   fill_state      only for a fill: the caller's memory, and the names to report

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
#include "io/readers/reader.hpp"
#include "load/delivery.hpp"
#include "load/file_counters.hpp"
#include "load/load_counters.hpp"
#include "load/load_drives.hpp"
#include "load/open.hpp"
#include "load/plan_progress.hpp"
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
  // `counted` is shared with the other groups of a window. Null: the load has its own counters.
  job(std::shared_ptr<engine> e, load_request request,
      std::shared_ptr<file_counters> counted = nullptr);

  // Constant.
  const std::shared_ptr<engine> the_engine;
  const std::string source;                      // Place for errors.
  const std::unique_ptr<const manifest> listed;  // Copy for options().verify, or null.
  const load_request& request() const noexcept { return request_; }
  const load_options& options() const noexcept { return request_.options; }

  // ---- From any thread ----

  void cancel() noexcept;
  load_stats progress() const;
  // Valid once the load has started. A `load_operation` exists only for a started load.
  const named_catalog& named() const noexcept { return *named_; }
  file_counters& per_file() const noexcept { return *per_file_; }
  const std::shared_ptr<file_counters>& shared_per_file() const noexcept { return per_file_; }
  bool stopped() const noexcept { return outcome_.stopped(); }
  // Requested when the load stops. Ends waits for an object store.
  const std::stop_token& stop_token() const noexcept { return stop_token_; }
  load_counters counters;
  load_delivery delivery{*this};

  // The check and the placement of a tensor. Valid while the check is in progress.
  const tensor_check& check_of(std::uint32_t t) const noexcept { return checks_.of(t); }
  const placement& place_of(std::uint32_t t) const noexcept { return storage_->tensors().where(t); }
  // "model.safetensors: tensor 'wte.weight'"
  std::string tensor_in_file(std::uint32_t t) const;

  // ---- In the engine thread only, from here on ----

  // Must be called before begin(). Also called if the load fails before begin().
  void set_fill(fill_state fill) { fill_ = std::move(fill); }
  // From now on, reads may be taken.
  void begin(opened_load opened);
  const open_file& file(const read_op& read) const noexcept { return from_->files[read.file]; }
  // The supply of the bytes, or null if a file is read.
  const byte_supply* supply(const read_op& read) const noexcept;
  const read_op& read(std::uint32_t index) const noexcept { return plan_.reads[index]; }
  std::span<const copy_op> copies(const read_op& read) const noexcept {
    return std::span(plan_.copies).subspan(read.copies_begin, read.copies_end - read.copies_begin);
  }
  std::span<const strided_map> maps() const noexcept { return plan_.maps; }
  const destinations& into() const noexcept { return into_; }
  // The arena of destination n, and all arenas. Not for fills. Empty after a failure.
  arena& memory(std::uint32_t n) const noexcept { return storage_->memory(n); }
  std::span<const std::shared_ptr<const tensor_storage>> arenas() const noexcept {
    if (!storage_) return {};
    return storage_->arenas();
  }
  bool fill() const noexcept { return fill_.has_value(); }
  // From now on, destinations may be partly written.
  void begin_writing() noexcept {
    if (fill_) fill_->writing = true;
  }
  // The name of the first tensor with bytes in the read.
  std::string_view first_tensor(const read_op& read) const noexcept;
  std::string_view first_tensor_of_stream(std::uint32_t s) const noexcept {
    return storage_->tensors().info(plan_.outputs[plan_.streams[s].outputs_begin].tensor).name;
  }
  // "model.safetensors: tensor 'wte.weight': byte 4,096", for errors.
  std::string place(const read_op& read, std::uint64_t file_offset) const;

  std::span<const feed_op> feeds(const read_op& read) const noexcept {
    return std::span(plan_.feeds).subspan(read.feeds_begin, read.feeds_end - read.feeds_begin);
  }
  // The first call creates the stream, with `copy`.
  running_stream& stream(std::uint32_t s, const stream_state::copier& copy);
  // True if the stream's stored bytes end with `feed`.
  bool ends_stream(const feed_op& feed) const noexcept {
    const stored_stream& stored = *stored_streams_[plan_.streams[feed.stream].stream].stored;
    return feed.stream_offset + feed.bytes == stored.bytes;
  }
  void stream_decoded(std::uint32_t s);
  std::string stream_place(std::uint32_t s) const;

  // The reads, as work. A taken read is in flight until end().
  offer take(bool awaited) override;
  boost::asio::awaitable<void> run(work_step step, result<void>& outcome) override;
  void end(std::uint32_t read, const result<void>& outcome) override;
  // The bound on the bytes in flight of the read's drive. Must not be called for a read from
  // memory.
  admission_control& gate(const read_op& read) const noexcept {
    return drives_.drive_of(read.file)->admission;
  }

  // A direct read was refused: the rest of the load is read through the page cache.
  void refuse_direct(const std::string& reason);
  bool direct_refused() const noexcept { return direct_refused_; }

  // Returns true once, for the coroutine that populates the arenas ahead of the reads. The
  // coroutine must stop when needs_prefault() is false.
  bool begin_prefault() noexcept {
    const bool first = !prefault_begun_;
    if (first) prefault_begun_ = prefaulting_ = true;
    return first;
  }
  bool needs_prefault() const noexcept { return !stopped() && !all_loaded(); }
  void end_prefault();

  // For the delivery, after begin(). is_loaded() and take_loaded() may be called before.
  const loaded_tensors& tensors() const noexcept { return storage_->tensors(); }
  tensor tensor_at(std::uint32_t t) const { return storage_->tensor_at(t); }
  model loaded_model() const { return model(storage_); }
  bool is_loaded(std::uint32_t t) const noexcept { return progress_ && progress_->is_loaded(t); }
  std::optional<std::uint32_t> take_loaded();
  // Moves the tensor's reads, or its check, to the front.
  void prioritize(std::uint32_t t);
  fill_state* fill_progress() noexcept { return fill_ ? &*fill_ : nullptr; }
  std::shared_ptr<const opened_checkpoint> release_opened() noexcept { return std::move(from_); }
  const stop_state& outcome() const noexcept { return outcome_; }

  // No further read or check is taken. The load still waits for reads and checks in flight. Keeps
  // the first cause.
  void stop(fault cause);
  void stop_at_close() override;
  void stop_cancelled() noexcept;
  // True if the load is complete or stopped, and no read, check or prefault is in progress.
  bool quiet() const noexcept;
  boost::asio::awaitable<void> until_quiet() { return quiet_.wait(); }

  // The files, for a thread that may block to close the files. Null if they were not opened.
  std::shared_ptr<const opened_checkpoint> opened() const noexcept { return from_; }
  void release_files() noexcept { from_.reset(); }
  // A fill and a copy use memory of the caller. The memory and its owners are released when all
  // reads and writes of the memory have ended. A thread that may block does this while the engine
  // thread waits.
  bool borrows() const noexcept { return request_.fill || request_.copy; }
  void release_borrowed() noexcept {
    request_.fill.reset();
    request_.copy.reset();
  }
  // The memory of a failed load, for a thread that may block to free the memory. Tensors that were
  // handed out keep the memory alive.
  std::shared_ptr<const model_storage> release_storage() noexcept { return std::move(storage_); }
  void release_storage_if_stopped() noexcept {
    if (stopped()) storage_.reset();
  }
  // Completes all present and later operations, with the model or with the failure.
  void finish() noexcept;
  bool finished() const noexcept { return outcome_.finished(); }
  // The cause of the stop, or null if the load was not stopped.
  std::exception_ptr failure() const noexcept { return outcome_.failure(); }

 private:
  // Checks of tensors that have all their bytes, as separate work.
  class check_work final : public work {
   public:
    explicit check_work(job& load) : load_(load) {}
    offer take(bool awaited) override;
    boost::asio::awaitable<void> run(work_step step, result<void>& outcome) override;
    void end(std::uint32_t tensor, const result<void>& outcome) override;

   private:
    job& load_;
  };
  std::shared_ptr<work> checking() { return {shared_from_this(), &check_work_}; }

  bool all_loaded() const noexcept { return progress_ && progress_->all_loaded(); }
  void wake_if_quiet();
  void completed(std::uint32_t read);
  void bytes_complete(std::uint32_t t);
  void checked(std::uint32_t t);
  void prioritize_check(std::uint32_t t);
  void tensor_loaded(std::uint32_t t);

  std::stop_source stop_source_;
  const std::stop_token stop_token_ = stop_source_.get_token();

  // Constant, except that the fill and the copy are released at the end of the load.
  load_request request_;

  // Set by begin(), then constant.
  std::shared_ptr<const named_catalog> named_;
  plan plan_;  // Without `tensors`, which are in storage_.
  destinations into_;
  std::shared_ptr<file_counters> per_file_;

  // Used by the engine thread only.
  std::shared_ptr<const opened_checkpoint> from_;  // Null before begin() and after the load.
  std::shared_ptr<model_storage> storage_;         // Null before begin() and after a failure.
  std::optional<plan_progress> progress_;          // Empty before begin().
  load_drives drives_;
  std::optional<fill_state> fill_;  // Empty before begin(), and if the load is no fill.
  check_queue checks_;
  check_work check_work_{*this};
  stop_state outcome_;
  std::vector<plan_input_builder::stream> stored_streams_;  // Indexed like plan_input::streams.
  std::vector<std::unique_ptr<running_stream>>
      streams_;  // Indexed like plan::streams. Null: not started.
  bool direct_refused_ = false;
  bool prefault_begun_ = false;
  bool prefaulting_ = false;
  wait_queue quiet_;
};

// Starts the load. Engine thread only.
void run_job(const std::shared_ptr<job>& load);

}  // namespace ringload::inline v0::detail
