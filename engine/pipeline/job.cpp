// SPDX-License-Identifier: Apache-2.0
#include "pipeline/job.hpp"

#include <algorithm>
#include <boost/asio/error.hpp>

#include "core/retry_allocation.hpp"
#include "formats/printable.hpp"
#include "pipeline/engine.hpp"

namespace ringload::inline v0::detail {

namespace {

double seconds(std::int64_t nanoseconds) { return static_cast<double>(nanoseconds) * 1e-9; }

double seconds(const std::atomic<std::uint64_t>& nanoseconds) {
  return static_cast<double>(nanoseconds.load()) * 1e-9;
}

load_options with_own_manifest(load_options options, const manifest* own) {
  options.verify = own;
  return options;
}

}  // namespace

job::job(std::shared_ptr<engine> e, std::string from, load_options how)
    : the_engine(std::move(e)),
      source(std::move(from)),
      verify(how.verify ? std::make_unique<const manifest>(*how.verify) : nullptr),
      options(with_own_manifest(how, verify.get())),
      ended_(the_engine->loop) {}

std::int64_t job::since_begun() const noexcept {
  return std::max<std::int64_t>(1, std::chrono::nanoseconds(clock::now() - begun_).count());
}

void job::cancel() noexcept {
  // Nothing changes any more. The engine thread must not be the last to know of the memory.
  if (finished_) return;
  retry_allocation(
      [&] { the_engine->post([self = shared_from_this()] { self->stop_cancelled(); }); });
}

void job::stop_cancelled() noexcept {
  stop(retry_allocation(
      [&] { return fault(boost::asio::error::operation_aborted, printable_path(source)); }));
}

load_stats job::progress() const {
  load_stats s;
  the_engine->fill_stats(s);
  s.bytes = bytes_;
  s.bytes_total = bytes_total_;
  s.tensors = tensors_;
  s.tensors_total = tensors_total_;
  s.bytes_direct = bytes_direct;
  s.bytes_buffered = bytes_buffered;
  s.bytes_straight = bytes_straight;
  s.reads = reads;
  s.short_reads = short_reads;
  s.retries = retries;
  s.bytes_verified = bytes_verified_;
  s.seconds = seconds(ended_at_ != 0 ? ended_at_.load() : since_begun());
  s.seconds_to_first_tensor = seconds(first_at_.load());
  s.seconds_opening = seconds(opened_at_.load());
  s.seconds_device_wait = seconds(device_wait_nanoseconds);
  s.seconds_memory_wait = seconds(memory_wait_nanoseconds);
  s.memory_kept = memory_kept_;
  const std::lock_guard lock(reason_mutex_);
  s.route_reason = route_reason_;
  return s;
}

void job::begin(opened_load work) {
  named_ = std::make_shared<const named_catalog>(std::move(work.catalog));
  files_ = std::move(work.files);
  plan_ = std::move(work.plan);
  expected_ = std::move(work.expected);
  memory_kept_ = work.memory->was_kept();
  storage_ = std::make_shared<tensor_storage>(named_, std::move(plan_.tensors),
                                              std::move(work.memory), the_engine->on);
  taken_.resize(plan_.reads.size());

  const auto& tensors = named_->catalog().tensors;
  bytes_total_ = named_->catalog().bytes();
  tensors_total_ = tensors.size();
  missing_.resize(tensors.size());
  if (!expected_.empty()) check_taken_.resize(tensors.size());
  order_.reserve(tensors.size());
  begun_reading_ = true;
  opened_at_ = since_begun();
  {
    const std::lock_guard lock(reason_mutex_);
    route_reason_ = std::move(work.route_reason);
  }
  for (std::uint32_t t = 0; t < missing_.size(); ++t) {
    const placement& p = storage_->where(t);
    missing_[t] = p.reads_end - p.reads_begin + (expected_.empty() ? 0U : 1U);
    if (p.reads_end == p.reads_begin) bytes_complete(t);
  }
}

std::string job::place(const read_op& read, std::uint64_t file_offset) const {
  std::string where = printable_path(files_[read.file].path);
  const auto index = static_cast<std::uint32_t>(&read - plan_.reads.data());
  for (std::uint32_t t = read.tensors_begin; t < read.tensors_end; ++t) {
    const tensor_info& info = named_->catalog().tensors[t];
    if (!feeds(index, t) || info.offset + info.bytes <= file_offset) continue;
    where += ": " + tensor_place(info.name);
    break;
  }
  return where + ": byte " + grouped(file_offset);
}

std::optional<std::uint32_t> job::take(std::deque<std::uint32_t>& of, std::vector<bool>& taken,
                                       std::uint32_t& under_way) const {
  while (!stopped_ && !of.empty()) {
    const std::uint32_t one = of.front();
    of.pop_front();
    if (taken[one]) continue;
    taken[one] = true;
    ++under_way;
    return one;
  }
  return std::nullopt;
}

std::optional<std::uint32_t> job::take_awaited() {
  return take(awaited_reads_, taken_, in_flight_);
}

std::optional<std::uint32_t> job::take_next() {
  while (!stopped_ && next_read_ < plan_.reads.size()) {
    const std::uint32_t read = next_read_++;
    if (taken_[read]) continue;
    taken_[read] = true;
    ++in_flight_;
    return read;
  }
  return std::nullopt;
}

bool job::feeds(std::uint32_t read, std::uint32_t t) const noexcept {
  const placement& p = storage_->where(t);
  return p.straight == plan_.reads[read].straight() && p.reads_begin <= read && read < p.reads_end;
}

void job::completed(std::uint32_t read) {
  --in_flight_;
  if (!stopped_) {
    const read_op& op = plan_.reads[read];
    try {
      for (std::uint32_t t = op.tensors_begin; t < op.tensors_end; ++t) {
        if (feeds(read, t) && --missing_[t] == (expected_.empty() ? 0U : 1U)) bytes_complete(t);
      }
      complete_next_waiters();
    } catch (const std::bad_alloc&) {
      stop({errc::memory_exceeded, {}});
    }
  }
  if (quiet()) ended_.wake_all();
}

void job::failed(fault why) noexcept {
  --in_flight_;
  stop(std::move(why));
}

void job::stop(fault why) {
  if (!stopped_ && !finished_) {
    stopped_ = true;
    fault_ = std::move(why);
  }
  if (quiet()) ended_.wake_all();
}

void job::end_prefault() {
  prefaulting_ = false;
  if (quiet()) ended_.wake_all();
}

void job::refuse_direct(const std::string& why) {
  direct_refused_ = true;
  const std::lock_guard lock(reason_mutex_);
  if (route_reason_.empty()) route_reason_ = why;
}

std::string job::tensor_in_file(std::uint32_t t) const {
  const tensor_info& info = named_->catalog().tensors[t];
  return printable_path(named_->catalog().files[info.file].path) + ": " + tensor_place(info.name);
}

// All its bytes are there.
void job::bytes_complete(std::uint32_t t) {
  if (expected_.empty()) {
    tensor_loaded(t);
    return;
  }
  if (tensor_waiters_.contains(t)) {
    prioritize_check(t);
  } else {
    checks_.push_back(t);
    the_engine->check_schedule.add(shared_from_this());
  }
}

void job::prioritize_check(std::uint32_t t) {
  awaited_checks_.push_back(t);
  the_engine->check_schedule.prioritize(shared_from_this());
}

std::optional<std::uint32_t> job::take_awaited_check() {
  return take(awaited_checks_, check_taken_, checking_);
}

std::optional<std::uint32_t> job::take_next_check() {
  return take(checks_, check_taken_, checking_);
}

void job::checked(std::uint32_t t, const result<void>& how) {
  --checking_;
  if (!how) {
    stop(retry_allocation([&] { return how.error(); }));
  } else if (!stopped_) {
    missing_[t] = 0;
    bytes_verified_ += storage_->info(t).bytes;
    try {
      tensor_loaded(t);
      complete_next_waiters();
    } catch (const std::bad_alloc&) {
      stop({errc::memory_exceeded, {}});
    }
  }
  if (quiet()) ended_.wake_all();
}

void job::tensor_loaded(std::uint32_t t) {
  const std::uint64_t bytes = storage_->info(t).bytes;
  order_.push_back(t);
  bytes_ += bytes;
  ++tensors_;
  if (bytes > 0 && first_at_ == 0) first_at_ = since_begun();
  const auto line = tensor_waiters_.find(t);
  if (line == tensor_waiters_.end()) return;
  for (auto& one : line->second) one.answer->complete(nullptr, tensor(storage_, t));
  tensor_waiters_.erase(line);
}

void job::complete_next_waiters() {
  while (!next_waiters_.empty() && handed_out_ < order_.size()) {
    const auto answer = std::move(next_waiters_.front().answer);
    next_waiters_.pop_front();
    answer->complete(nullptr, tensor(storage_, order_[handed_out_++]));
  }
}

void job::await_reads(const placement& of) {
  for (std::uint32_t r = of.reads_begin; r < of.reads_end; ++r) {
    if (!taken_[r]) awaited_reads_.push_back(r);
  }
  if (!awaited_reads_.empty()) the_engine->read_schedule.prioritize(shared_from_this());
}

template <class T>
void job::cancel_wait(waiters<T>& line, std::uint64_t id) {
  const auto one =
      std::lower_bound(line.begin(), line.end(), id,
                       [](const waiter<T>& w, std::uint64_t wanted) { return w.id < wanted; });
  if (one == line.end() || one->id != id) return;  // Answered already.
  const auto answer = std::move(one->answer);
  line.erase(one);
  const fault why(boost::asio::error::operation_aborted, printable_path(source),
                  "the wait was cancelled, not the load");
  answer->complete(to_exception(why), T());
}

void job::await_tensor(std::uint32_t t, std::unique_ptr<operation<tensor>> waiting) {
  if (finished_ && stopped_) {
    waiting->complete(failure(), tensor());
    return;
  }
  if (!stopped_ && missing_[t] == 0) {
    waiting->complete(nullptr, tensor(storage_, t));
    return;
  }
  const std::uint64_t id = ++last_id_;
  waiting->cancel->arm([weak = weak_from_this(), t, id] {
    const auto self = weak.lock();
    if (!self) return;
    self->the_engine->post([self, t, id] {
      const auto line = self->tensor_waiters_.find(t);
      if (line != self->tensor_waiters_.end()) self->cancel_wait(line->second, id);
    });
  });
  tensor_waiters_[t].push_back({id, std::move(waiting)});
  if (stopped_) return;
  if (missing_[t] == 1 && !expected_.empty()) {
    prioritize_check(t);  // All its bytes are there.
  } else {
    await_reads(storage_->where(t));
  }
}

void job::await_next(std::unique_ptr<operation<std::optional<tensor>>> waiting) {
  if (finished_ && stopped_) {
    waiting->complete(failure(), std::nullopt);
    return;
  }
  const std::uint64_t id = ++last_id_;
  waiting->cancel->arm([weak = weak_from_this(), id] {
    const auto self = weak.lock();
    if (!self) return;
    self->the_engine->post([self, id] { self->cancel_wait(self->next_waiters_, id); });
  });
  next_waiters_.push_back({id, std::move(waiting)});
  if (!stopped_) complete_next_waiters();
  if (finished_) answer_all(next_waiters_, std::optional<tensor>());
}

void job::await_finish(std::unique_ptr<operation<model>> waiting) {
  waiting->cancel->arm([weak = weak_from_this()] {
    if (const auto self = weak.lock()) self->cancel();
  });
  finish_waiters_.push_back({++last_id_, std::move(waiting)});
  if (!finished_) return;
  // Only a model is left to be given, or why there is none.
  const auto answer = std::move(finish_waiters_.front().answer);
  finish_waiters_.clear();
  if (stopped_) {
    answer->complete(failure(), model());
  } else {
    answer->complete(nullptr, model(storage_));
  }
}

void job::await_start(std::unique_ptr<operation<loading>> waiting) {
  waiting->cancel->arm([weak = weak_from_this()] {
    const auto self = weak.lock();
    if (!self) return;
    self->the_engine->post([self] {
      if (self->start_) self->stop_cancelled();
    });
  });
  start_ = std::move(waiting);
}

void job::complete_start() {
  if (!start_) return;
  const auto answer = std::move(start_);
  answer->complete(nullptr, loading(shared_from_this()));
}

// To those who wait for something that will not come: the reason, or that there is nothing more.
// A handler for which there is no memory is destroyed, as Asio does with its own; the others are
// answered. Nothing here may throw, or the load would never end.
template <class T>
void job::answer_all(waiters<T>& line, const T& with_what) noexcept {
  while (!line.empty()) {
    const auto answer = std::move(line.front().answer);
    line.pop_front();
    try {
      answer->complete(stopped_ ? failure() : nullptr, stopped_ ? T() : with_what);
    } catch (const std::bad_alloc&) {
    }
  }
}

void job::finish() noexcept {
  finished_ = true;
  ended_at_ = since_begun();
  try {
    if (storage_) storage_->stats = progress();
  } catch (const std::bad_alloc&) {
    // A model without figures is better than none.
  }
  try {
    if (start_) std::exchange(start_, {})->complete(failure(), loading());
  } catch (const std::bad_alloc&) {
  }
  for (auto& [t, line] : tensor_waiters_) answer_all(line, tensor());
  tensor_waiters_.clear();
  answer_all(next_waiters_, std::optional<tensor>());
  answer_all(finish_waiters_, stopped_ ? model() : model(storage_));
}

}  // namespace ringload::inline v0::detail
