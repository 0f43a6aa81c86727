// SPDX-License-Identifier: Apache-2.0
#pragma once

// One load, as the engine sees it. It holds the parts of a load's state and connects them:
//
//   plan_progress   which reads are taken or in flight, and what each tensor still misses
//   check_queue   which tensors are to be hashed
//   load_drives     the drives that its files lie on, which share out the workers
//   load_delivery   the operations that wait for tensors, the start or the end
//   load_counters   the statistics, for any thread; file_counters those of each file
//   stop_state    why it stopped, and whether it is over
//   filling         of a fill: the caller's memory, and the names to report

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
  // `counted` with others, of which the load is a part; null: alone.
  job(std::shared_ptr<engine> e, load_request what,
      std::shared_ptr<file_counters> counted = nullptr);

  // Never changed.
  const std::shared_ptr<engine> the_engine;
  const std::string source;                      // For errors.
  const std::unique_ptr<const manifest> listed;  // Our own copy, for options().verify; or null.
  const load_request& request() const noexcept { return request_; }
  const load_options& options() const noexcept { return request_.options; }

  // ---- From any thread ----

  void cancel() noexcept;
  load_stats progress() const;
  // Valid once the load has started, which whoever holds a `load_operation` knows.
  const named_catalog& named() const noexcept { return *named_; }
  file_counters& per_file() const noexcept { return *per_file_; }
  const std::shared_ptr<file_counters>& shared_per_file() const noexcept { return per_file_; }
  bool stopped() const noexcept { return outcome_.stopped(); }
  // Requested when the load stops, for what waits for a store.
  const std::stop_token& stop_token() const noexcept { return stop_token_; }
  load_counters counters;
  load_delivery delivery{*this};

  // How a tensor is checked, and where it lies. Valid while its check is in progress.
  const tensor_check& check_of(std::uint32_t t) const noexcept { return checks_.of(t); }
  const placement& place_of(std::uint32_t t) const noexcept { return storage_->of().where(t); }
  // "model.safetensors: tensor 'wte.weight'"
  std::string tensor_in_file(std::uint32_t t) const;

  // ---- In the engine thread only, from here on ----

  // Before begin(), and also where that is not called any more.
  void set_fill(fill_state what) { fill_ = std::move(what); }
  // The reads may now be taken.
  void begin(opened_load opened);
  const open_file& file(const read_op& read) const noexcept { return from_->files[read.file]; }
  // What brings its bytes, if it is not a file.
  const byte_supply* supply(const read_op& read) const noexcept;
  const read_op& read(std::uint32_t index) const noexcept { return plan_.reads[index]; }
  std::span<const copy_op> copies(const read_op& read) const noexcept {
    return std::span(plan_.copies).subspan(read.copies_begin, read.copies_end - read.copies_begin);
  }
  std::span<const strided_map> maps() const noexcept { return plan_.maps; }
  const destinations& into() const noexcept { return into_; }
  // What destination n is, and all of them; not of a fill. None after a failure.
  arena& memory(std::uint32_t n) const noexcept { return storage_->memory(n); }
  std::span<const std::shared_ptr<const tensor_storage>> arenas() const noexcept {
    if (!storage_) return {};
    return storage_->arenas();
  }
  bool fill() const noexcept { return fill_.has_value(); }
  // From here on destinations may be torn.
  void begin_writing() noexcept {
    if (fill_) fill_->writing = true;
  }
  // The first tensor that has bytes in the read, by its name.
  std::string_view first_tensor(const read_op& read) const noexcept;
  std::string_view first_tensor_of_stream(std::uint32_t s) const noexcept {
    return storage_->of().info(plan_.outputs[plan_.streams[s].outputs_begin].tensor).name;
  }
  // "model.safetensors: tensor 'wte.weight': byte 4,096", for errors.
  std::string place(const read_op& read, std::uint64_t file_offset) const;

  std::span<const feed_op> feeds(const read_op& read) const noexcept {
    return std::span(plan_.feeds).subspan(read.feeds_begin, read.feeds_end - read.feeds_begin);
  }
  // Made when it is first asked for; `copy` is for a new one.
  running_stream& stream(std::uint32_t s, const stream_state::copier& copy);
  // The stream's stored bytes end with these.
  bool ends_stream(const feed_op& what) const noexcept {
    const stored_stream& stored = *stored_streams_[plan_.streams[what.stream].stream].stored;
    return what.stream_offset + what.bytes == stored.bytes;
  }
  void stream_decoded(std::uint32_t s);
  std::string stream_place(std::uint32_t s) const;

  // The reads, as work. A read that was taken is in flight until end().
  offer take(bool awaited) override;
  boost::asio::awaitable<void> run(work_step step, result<void>& outcome) override;
  void end(std::uint32_t read, const result<void>& outcome) override;
  // What bounds the bytes in flight with this one. Not of a read from memory.
  admission_control& gate(const read_op& read) const noexcept {
    return drives_.of(read.file)->admission;
  }

  // A direct read was refused: the rest of the load is read through the page cache.
  void refuse_direct(const std::string& why);
  bool direct_refused() const noexcept { return direct_refused_; }

  // One coroutine at most populates the arenas ahead of the reads: it is begun where this is true.
  // It stops early once needs_prefault() is false.
  bool begin_prefault() noexcept {
    const bool first = !prefault_begun_;
    if (first) prefault_begun_ = prefaulting_ = true;
    return first;
  }
  bool needs_prefault() const noexcept { return !stopped() && !all_loaded(); }
  void end_prefault();

  // For the delivery, once the load has begun; is_loaded() and take_loaded() also before.
  const loaded_tensors& tensors() const noexcept { return storage_->of(); }
  tensor tensor_at(std::uint32_t t) const { return storage_->at(t); }
  model loaded_model() const { return model(storage_); }
  bool is_loaded(std::uint32_t t) const noexcept { return progress_ && progress_->is_loaded(t); }
  std::optional<std::uint32_t> take_loaded();
  // Moves the tensor's reads, or its check, to the front.
  void prioritize(std::uint32_t t);
  fill_state* fill_progress() noexcept { return fill_ ? &*fill_ : nullptr; }
  std::shared_ptr<const opened_checkpoint> release_opened() noexcept { return std::move(from_); }
  const stop_state& outcome() const noexcept { return outcome_; }

  // Takes no more reads and checks; those in flight are waited for. The first reason is kept.
  void stop(fault why);
  void stop_at_close() override;
  void stop_cancelled() noexcept;
  // Everything is loaded, or the load has stopped; and nothing is in flight.
  bool quiet() const noexcept;
  boost::asio::awaitable<void> until_quiet() { return quiet_.wait(); }

  // The files, for a thread that may block to close them. Null where they were not opened.
  std::shared_ptr<const opened_checkpoint> opened() const noexcept { return from_; }
  void release_files() noexcept { from_.reset(); }
  // What is filled or copied is others' memory. It is let go of, with its owners, once nothing is
  // written to it or read from it; in a thread that may block, while the engine thread waits.
  bool borrows() const noexcept { return request_.fill || request_.copy; }
  void release_borrowed() noexcept {
    request_.fill.reset();
    request_.copy.reset();
  }
  // The memory of a failed load, for a thread that may block to free it. Tensors that were handed
  // out keep it alive.
  std::shared_ptr<const model_storage> release_storage() noexcept { return std::move(storage_); }
  void release_storage_if_stopped() noexcept {
    if (stopped()) storage_.reset();
  }
  // Completes all operations that wait, now or later: with the model, or with the failure.
  void finish() noexcept;
  bool finished() const noexcept { return outcome_.finished(); }
  // Why it was stopped; null if it was not.
  std::exception_ptr failure() const noexcept { return outcome_.failure(); }

 private:
  // The tensors that have all their bytes and are to be checked, as work of its own.
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

  // Never changed, but that destinations, or what is copied, are released when it is over.
  load_request request_;

  // Set by begin(), never changed after.
  std::shared_ptr<const named_catalog> named_;
  plan plan_;  // Without `tensors`, which are in storage_.
  destinations into_;
  std::shared_ptr<file_counters> per_file_;

  // Touched by the engine thread only.
  std::shared_ptr<const opened_checkpoint> from_;  // Null before begin(), and once it is over.
  std::shared_ptr<model_storage> storage_;         // Null before begin() and after a failure.
  std::optional<plan_progress> progress_;          // Empty before begin().
  load_drives drives_;
  std::optional<fill_state> fill_;  // Empty before begin(), and in other loads.
  check_queue checks_;
  check_work check_work_{*this};
  stop_state outcome_;
  std::vector<plan_input_builder::stream> stored_streams_;  // By plan_input::streams.
  std::vector<std::unique_ptr<running_stream>> streams_;    // By plan::streams; null: not begun.
  bool direct_refused_ = false;
  bool prefault_begun_ = false;
  bool prefaulting_ = false;
  wait_queue quiet_;
};

// Begins the load; in the engine thread.
void run_job(const std::shared_ptr<job>& one);

}  // namespace ringload::inline v0::detail
