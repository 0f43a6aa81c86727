// SPDX-License-Identifier: Apache-2.0

#include "load/job.hpp"

#include <algorithm>
#include <boost/asio/error.hpp>
#include <chrono>

#include "base/printable.hpp"
#include "base/retry_allocation.hpp"
#include "io/populate_pages.hpp"
#include "load/traced_step.hpp"
#include "load/upload.hpp"
#include "runtime/engine.hpp"

namespace ringload::inline v0::detail {

namespace {

// Limits stop_time_max, because a time in milliseconds can overflow the nanoseconds of a timer.
constexpr std::chrono::milliseconds stop_time_limit = std::chrono::hours(24 * 365);

plan_progress progress_of(const plan& work, const load_drives& drives) {
  std::vector<plan_progress::range> parts_of_tensor;
  parts_of_tensor.reserve(work.tensors.size());
  for (const placement& p : work.tensors) parts_of_tensor.push_back({p.parts_begin, p.parts_end});
  std::vector<plan_progress::tensor_part> parts;
  parts.reserve(work.parts.size());
  for (const part& p : work.parts) {
    parts.push_back({p.tensor, {p.reads_begin, p.reads_end}, p.stream});
  }
  std::vector<plan_progress::range> parts_of_read;
  parts_of_read.reserve(work.reads.size());
  for (const read_op& r : work.reads) parts_of_read.push_back({r.parts_begin, r.parts_end});
  std::vector<std::uint32_t> drive_of_read;
  for (const read_op& r : work.reads) {
    if (drives.count() > 1) drive_of_read.push_back(drives.index_of(r.file));
  }
  return {std::move(parts_of_tensor), std::move(parts), std::move(parts_of_read), work.order,
          std::move(drive_of_read),   drives.count()};
}

}  // namespace

job::job(std::shared_ptr<engine> e, load_request request,
         std::shared_ptr<load_counters> window_counters)
    : the_engine(std::move(e)),
      source(shown(request)),
      checksums(request.options.verify.checksums
                    ? std::make_unique<const checksum_list>(*request.options.verify.checksums)
                    : nullptr),
      is_window_group(window_counters != nullptr),
      shared_counters(is_window_group ? std::move(window_counters)
                                      : std::make_shared<load_counters>()),
      request_(with_checksum_list(std::move(request), checksums.get())),
      quiet_waiters_(the_engine->loop) {}

void job::cancel() noexcept {
  if (delivery.window()) {
    retry_allocation([&] { the_engine->post([window = delivery.window()] { window->cancel(); }); });
  }
  // After the end of the load, stop_cancelled() is not posted. The posted handler could hold the
  // last reference to the tensors. The engine thread would then free their memory, which can take
  // long.
  if (finished()) return;
  retry_allocation(
      [&] { the_engine->post([self = shared_from_this()] { self->stop_cancelled(); }); });
}

void job::stop_cancelled() noexcept {
  stop(retry_allocation(
      [&] { return fault(boost::asio::error::operation_aborted, printable_path(source)); }));
  limit_wait();  // The thread that opens the files may wait for a mount.
}

load_stats job::progress() const {
  load_stats s;
  the_engine->fill_stats(s);
  counters.fill_stats(s);
  return s;
}

void job::begin(opened_load opened) {
  checkpoint_ = std::move(opened.checkpoint);
  named_ = std::move(opened.named);
  plan_ = std::move(opened.plan);
  checks_ = check_queue(std::move(opened.checks));
  drives_.begin(checkpoint_->files, !plan_.reads.empty(), the_engine->drives);
  progress_.emplace(progress_of(plan_, drives_));
  destination_memory_ = std::move(opened.destination_memory);
  uncached_files_ = std::move(opened.uncached_files);
  const bool was_cached = std::ranges::any_of(
      opened.memory, [](const taken_arena& a) { return a.memory && a.memory->was_kept(); });
  if (was_cached) counters.memory_kept = true;
  auto tensor_table = std::make_shared<const loaded_tensors>(named_, std::move(plan_.tensors));
  storage_ = std::make_shared<model_storage>(std::move(tensor_table), std::move(opened.memory),
                                             the_engine->memory);
  if (!is_window_group) {
    counters.per_file.emplace(counters.begun(), checkpoint_->files.size());
    for (const file_info& file : named_->catalog().files) {
      counters.header_bytes += file.header_bytes;
    }
    counters.bytes_total = named_->catalog().size_bytes();
    counters.tensors_total = named_->catalog().tensors.size();
    counters.set_opened();
  }
  counters.set_route_reason(opened.route_reason);
  // GPUDirect Storage is used only if all destinations are in the memory of the loader's GPU. The
  // destinations of a fill can be in host memory.
  if (the_engine->storage && destination_memory_.only() == &the_engine->devices.backend_at(0)) {
    storage_reads_ =
        std::make_unique<storage_reads>(*the_engine->storage, checkpoint_->files.size());
  }
  for (std::uint32_t t = 0; t < progress_->tensors(); ++t) {
    // These tensors need no read: mapped tensors, tensors of 0 bytes, and tensors without stored
    // bytes (see plan::fills).
    if (progress_->has_all_bytes(t)) on_bytes_complete(t);
  }
  stored_streams_ = std::move(opened.streams);
  streams_.resize(plan_.streams.size());
  for (std::uint32_t s = 0; s < plan_.streams.size(); ++s) {
    // place_unread() has already written the bytes of streams that are stored in file headers.
    const bool has_reads = plan_.streams[s].reads_begin != plan_.streams[s].reads_end;
    if (!has_reads) progress_->set_decoded(s, [this](std::uint32_t t) { on_bytes_complete(t); });
  }
}

const byte_supply* job::supply(const read_op& read) const noexcept {
  static const byte_supply pages = populate_pages;
  const bool is_mapped = read.is_unstaged() && !fill_ && storage_->mapped(read.destination);
  const byte_supply& memory = file(read).supply;
  return is_mapped ? &pages : memory ? &memory : nullptr;
}

const std::byte* job::registered_memory(const read_op& read) const noexcept {
  const open_file& from = file(read);
  const backend* const target = destination_memory_.only();
  if (from.registration == nullptr || target == nullptr || target->rules().unstaged) return nullptr;
  const std::byte* const memory = from.memory + read.file_offset;
  return from.registration->covers({memory, read.bytes_needed}) ? memory : nullptr;
}

std::string job::error_place(const read_op& read, std::uint64_t file_offset) const {
  if (stopped()) return {};
  if (file(read).supply) return printable_path(source);
  std::string where = printable_path(file(read).path);
  const auto index = static_cast<std::uint32_t>(&read - plan_.reads.data());
  for (std::uint32_t p = read.parts_begin; p < read.parts_end; ++p) {
    const tensor_info& info = named_->catalog().tensors[plan_.parts[p].tensor];
    const std::uint64_t stored = info.encoding.empty() ? info.bytes : info.stored_bytes;
    if (!plan_.parts[p].is_fed_by(index) || info.offset + stored <= file_offset) continue;
    where += ": " + tensor_place(info.name);
    break;
  }
  return where + ": byte " + grouped(file_offset);
}

std::string_view job::first_tensor(const read_op& read) const noexcept {
  const auto index = static_cast<std::uint32_t>(&read - plan_.reads.data());
  for (std::uint32_t p = read.parts_begin; p < read.parts_end; ++p) {
    if (plan_.parts[p].is_fed_by(index))
      return named_->catalog().tensors[plan_.parts[p].tensor].name;
  }
  return {};
}

running_stream& job::stream(std::uint32_t s) {
  std::unique_ptr<running_stream>& running = streams_[s];
  if (!running) {
    const stream_op& op = plan_.streams[s];
    const plan_input_builder::stream& stored = stored_streams_[op.stream];
    const std::uint32_t destination = plan_.outputs[op.outputs_begin].destination;
    std::byte* const memory = destination_memory_.backend_of(destination).rules().unstaged
                                  ? destination_memory_[destination]
                                  : nullptr;
    auto created = std::make_unique<running_stream>();
    const auto copies = std::make_shared<upload>(destination_memory_, plan_.maps);
    auto state = std::make_shared<stream_state>(
        plan_, op, stored, options().verify, memory,
        [copies](const std::byte* from, std::span<const copy_op> ranges) {
          return copies->copy(from, ranges);
        },
        [copies] { return copies->wait(); });
    created->decode = [state](std::span<const std::byte> bytes, bool last) {
      return state->decode(bytes, last);
    };
    running = std::move(created);
  }
  return *running;
}

void job::stream_decoded(std::uint32_t s) {
  streams_[s]->decode = nullptr;
  if (stopped()) return;
  const stream_op& op = plan_.streams[s];
  for (std::uint32_t o = op.outputs_begin; o < op.outputs_end; ++o) {
    if (stored_streams_[op.stream].digest) counters.bytes_verified += plan_.outputs[o].bytes;
  }
  progress_->set_decoded(s, [this](std::uint32_t t) { on_bytes_complete(t); });
}

std::string job::stream_place(std::uint32_t s) const {
  const stream_op& op = plan_.streams[s];
  return tensor_in_file(plan_.outputs[op.outputs_begin].tensor) + ": byte " +
         grouped(stored_streams_[op.stream].stored->offset);
}

std::string job::tensor_in_file(std::uint32_t t) const {
  return tensor_place(named_->catalog(), named_->catalog().tensors[t]);
}

work::offer job::take_step(bool awaited) {
  if (stopped()) return {};
  if (awaited) {
    return drives_.take_step(
        [this](std::uint32_t drive_index) { return progress_->has_prioritized(drive_index); },
        [this](std::uint32_t drive_index) { return progress_->take_prioritized(drive_index); });
  }
  return drives_.take_step(
      [this](std::uint32_t drive_index) { return progress_->has_next(drive_index); },
      [this](std::uint32_t drive_index) { return progress_->take_next(drive_index); });
}

void job::end(std::uint32_t read, const result<void>& outcome) {
  progress_->end_read();
  if (const drive* const source_drive = drives_.drive_of(plan_.reads[read].file))
    the_engine->add_workers(source_drive->admission.bytes_max());
  if (drives_.leave(plan_.reads[read].file)) the_engine->read_schedule.wake_worker();
  if (!outcome) {
    stop(outcome.error());
  } else if (!stopped()) {
    completed(read);
  }
  wake_if_quiet();
}

void job::completed(std::uint32_t read) {
  try {
    progress_->set_read_complete(read, [this](std::uint32_t t) { on_bytes_complete(t); });
    delivery.deliver_next();
  } catch (const std::bad_alloc&) {
    stop({errc::memory_exceeded, {}});
  }
}

// Called when all bytes of a tensor are in memory. The tensor is checked next, if necessary.
void job::on_bytes_complete(std::uint32_t t) {
  if (!checks_.needed(t)) {
    on_tensor_loaded(t);
  } else if (delivery.awaits_tensor(t)) {
    prioritize_check(t);
  } else {
    checks_.add(t);
    the_engine->check_schedule.add(checking());
  }
}

std::optional<std::uint32_t> job::take_loaded() { return progress_->take_loaded(); }

void job::prioritize(std::uint32_t t) {
  if (!progress_) return;
  if (progress_->has_all_bytes(t)) {
    prioritize_check(t);
  } else if (progress_->prioritize(t)) {
    the_engine->read_schedule.prioritize(shared_from_this());
  }
}

void job::prioritize_check(std::uint32_t t) {
  checks_.prioritize(t);
  the_engine->check_schedule.prioritize(checking());
}

work::offer job::check_work::take_step(bool awaited) {
  if (load_.stopped()) return {};
  return {awaited ? load_.checks_.take_prioritized() : load_.checks_.take_next()};
}

void job::check_work::end(std::uint32_t tensor, const result<void>& outcome) {
  load_.checks_.end_check();
  if (!outcome) {
    load_.stop(outcome.error());
  } else if (!load_.stopped()) {
    load_.on_check_passed(tensor);
  }
  load_.fail_waiting_after_limit();
  load_.wake_if_quiet();
}

void job::on_check_passed(std::uint32_t t) {
  if (checks_.check_of(t).has_digest())
    counters.bytes_verified += storage_->tensors().info(t).bytes;
  try {
    on_tensor_loaded(t);
    delivery.deliver_next();
  } catch (const std::bad_alloc&) {
    stop({errc::memory_exceeded, {}});
  }
}

void job::on_tensor_loaded(std::uint32_t t) {
  const std::uint64_t bytes = storage_->tensors().info(t).bytes;
  progress_->set_loaded(t);
  trace_moment(options(), load_step::landed, storage_->tensors().info(t).name,
               storage_->tensors().bytes(t));
  counters.bytes += bytes;
  if (!fill_ && storage_->mapped(placement_of(t).destination)) counters.bytes_mapped += bytes;
  ++counters.tensors;
  if (bytes > 0) counters.set_first_tensor();
  delivery.deliver(t);
}

void job::refuse_direct(const std::string& reason) {
  direct_refused_ = true;
  counters.set_route_reason(reason);
}

void job::refuse_storage(const std::string& reason) {
  storage_refused_ = true;
  counters.set_gpu_direct_reason(reason);
}

void job::end_prefault() {
  prefaulting_ = false;
  wake_if_quiet();
}

void job::stop_at_close() {
  // The load has ended and has closed its files. An owner of the caller's memory may own the
  // loader, so the release of the owners may close the engine.
  if (is_released_) return;
  stop({boost::asio::error::operation_aborted, printable_path(source), "the loader was destroyed"});
  limit_wait();
}

void job::stop(fault cause) {
  outcome_.stop(std::move(cause));
  stop_source_.request_stop();
  the_engine->read_rate.wake_all();
  for (const auto& stream : streams_) {
    if (stream) the_engine->stream_decoders->give_up(*stream);
  }
  wake_if_quiet();
  if (progress_ && progress_->in_flight() > 0) limit_wait();
}

void job::limit_wait() noexcept {
  // The wait has no limit while a fill is being opened, because the opening thread may write to the
  // destinations. The wait for a copy has no limit, because the reads use the caller's tensor.
  const bool is_begun_fill = is_fill() && progress_;
  if (stop_timer_ || finished() || (borrows_memory() && !is_begun_fill)) return;
  try {
    const auto limit = std::min(the_engine->options.stop_time_max, stop_time_limit);
    stop_timer_.emplace(the_engine->loop, limit);
    stop_timer_->async_wait([weak = weak_from_this()](const boost::system::error_code& failed) {
      const auto load = weak.lock();
      if (!load || failed) return;
      load->limit_passed_ = true;
      load->fail_waiting_after_limit();
    });
  } catch (const std::exception&) {
    // Without memory for the timer, the operations complete when the last read has ended.
  }
}

void job::fail_waiting_after_limit() noexcept {
  const bool in_use = uses_of_destinations_ > 0 || checks_.in_progress() > 0;
  if (limit_passed_ && !finished() && !(is_fill() && in_use)) delivery.fail_waiting();
}

bool job::is_quiet() const noexcept {
  const bool reading = progress_ && progress_->in_flight() > 0;
  const bool busy = reading || checks_.in_progress() > 0 || prefaulting_;
  return !busy && (stopped() || all_loaded());
}

void job::wake_if_quiet() {
  if (is_quiet()) quiet_waiters_.wake_all();
}

// Completes the waiting operations even if memory is exhausted.
void job::finish() noexcept {
  outcome_.finish();
  stop_timer_.reset();
  the_engine->read_schedule.remove(*this);
  the_engine->check_schedule.remove(check_work_);
  if (drives_.end()) the_engine->read_schedule.wake_all_workers();
  if (!is_window_group && !delivery.window()) counters.set_ended();
  try {
    if (storage_) {
      storage_->stats = progress();
      storage_->stats_of_files = per_file().stats();
    }
  } catch (const std::bad_alloc&) {
    // If memory is exhausted, the model is delivered without statistics.
  }
  delivery.finish();
}

}  // namespace ringload::inline v0::detail
