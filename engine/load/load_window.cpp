// SPDX-License-Identifier: Apache-2.0
#include "load/load_window.hpp"

#include <algorithm>
#include <boost/asio/bind_executor.hpp>
#include <boost/asio/error.hpp>
#include <utility>

#include "base/checked.hpp"
#include "base/printable.hpp"
#include "load/job.hpp"
#include "load/tensor_storage.hpp"
#include "runtime/engine.hpp"

namespace ringload::inline v0::detail {

namespace {

void add_to(load_stats& sum, const load_stats& part) {
  sum.bytes += part.bytes;
  sum.tensors += part.tensors;
  sum.bytes_direct += part.bytes_direct;
  sum.bytes_buffered += part.bytes_buffered;
  sum.bytes_straight += part.bytes_straight;
  sum.bytes_remote += part.bytes_remote;
  sum.bytes_verified += part.bytes_verified;
  sum.reads += part.reads;
  sum.short_reads += part.short_reads;
  sum.retries += part.retries;
  sum.requests += part.requests;
  sum.requests_repeated += part.requests_repeated;
  sum.seconds_device_wait += part.seconds_device_wait;
  sum.seconds_memory_wait += part.seconds_memory_wait;
  // The first group begins with the window.
  if (sum.seconds_to_first_byte == 0) sum.seconds_to_first_byte = part.seconds_to_first_byte;
}

}  // namespace

load_window::load_window(std::shared_ptr<engine> e, load_request request,
                         std::shared_ptr<const named_catalog> chosen,
                         std::vector<window_group> groups, std::shared_ptr<file_counters> per_file)
    : engine_(std::move(e)),
      listed_(request.options.verify.checksums
                  ? std::make_unique<const manifest>(*request.options.verify.checksums)
                  : nullptr),
      request_(with_listed(std::move(request), listed_.get())),
      chosen_(std::move(chosen)),
      groups_(std::move(groups)),
      per_file_(std::move(per_file)) {}

void load_window::begun::forget_returned() {
  std::erase_if(memory, [this](const held_arena& arena) {
    const bool is_freed = arena.memory.expired();
    if (is_freed) bytes -= std::min(bytes, arena.bytes);
    return is_freed;
  });
}

std::uint64_t load_window::live_bytes() {
  release_ended();
  std::uint64_t sum = 0;
  for (std::size_t i = 0; i < begun_.size();) {
    const bool over = i < front_ && !begun_[i].load;
    if (over) begun_[i].forget_returned();
    if (over && begun_[i].memory.empty()) {
      begun_.erase(begun_.begin() + static_cast<std::ptrdiff_t>(i));
      --front_;
    } else {
      sum += begun_[i++].bytes;
    }
  }
  return sum;
}

void load_window::begin_groups() {
  const std::uint64_t window_bytes = request_.options.window_bytes;
  std::uint64_t live = live_bytes();
  while (!failure_ && next_group_ < groups_.size() &&
         live + groups_[next_group_].bytes <= window_bytes) {
    const window_group& group = groups_[next_group_];
    load_request group_request = request_;
    group_request.options.window_bytes = 0;
    group_request.only_first = group.first;
    group_request.only_last = group.last;
    auto load = std::make_shared<job>(engine_, std::move(group_request), per_file_);
    {
      const std::lock_guard lock(mutex_);
      live_.push_back(load);
    }
    begun_.push_back({group.bytes, load, {}});
    ++next_group_;
    live += group.bytes;
    run_job(load);
  }
}

void load_window::next(waiting_ptr waiting) {
  const std::uint64_t id = ++last_id_;
  waiting->cancel->arm([weak = weak_from_this(), id] {
    const auto self = weak.lock();
    if (!self) return;
    self->engine_->post([self, id] { self->forget(id); });
  });
  waiting_.push_back({id, std::move(waiting)});
  go_on();
}

void load_window::forget(std::uint64_t id) {
  const auto found = std::ranges::find(waiting_, id, &waiter::id);
  if (found == waiting_.end()) return;
  const waiting_ptr cancelled = std::move(found->operation);
  waiting_.erase(found);
  const fault cause(boost::asio::error::operation_aborted, "",
                    "the wait was cancelled, not the load");
  cancelled->complete(to_exception(cause), std::nullopt);
}

std::int64_t load_window::nanoseconds() const noexcept {
  return std::max<std::int64_t>(1, std::chrono::nanoseconds(clock::now() - constructed_).count());
}

void load_window::hand_out(std::optional<tensor> next_tensor) {
  if (next_tensor && first_at_ == 0) first_at_ = nanoseconds();
  if (!next_tensor && ended_at_ == 0) ended_at_ = nanoseconds();
  const waiting_ptr first = std::move(waiting_.front().operation);
  waiting_.pop_front();
  first->complete(nullptr, std::move(next_tensor));
}

void load_window::go_on() noexcept {
  try {
    take_steps();
  } catch (const std::bad_alloc&) {
    fail_for_memory();
  }
}

void load_window::take_steps() {
  while (!waiting_.empty() && !awaiting_) {
    if (failure_) return fail_all();
    if (ready_) {
      hand_out(std::exchange(ready_, std::nullopt));
      continue;
    }
    begin_groups();
    if (failure_) return fail_all();
    if (front_ < begun_.size()) return await_front();
    // A group may fail after its tensors are handed out, because its files are checked again.
    if (await_end()) return;
    if (next_group_ == groups_.size()) {
      hand_out(std::nullopt);
      continue;
    }
    // The caller holds tensors that fill the window. Waiting for them could take for ever.
    const tensor_info& info = chosen_->catalog().tensors[groups_[next_group_].first];
    const fault full(
        errc::memory_exceeded,
        printable_path(chosen_->catalog().files[info.file].path) + ": " + tensor_place(info.name),
        "no room in the window of " + grouped(request_.options.window_bytes) +
            " bytes: tensors that were handed out are still held");
    const waiting_ptr first = std::move(waiting_.front().operation);
    waiting_.pop_front();
    first->complete(to_exception(full), std::nullopt);
  }
}

// The completion of a job's operation. If memory to post it is missing, it is destroyed uncalled.
template <class Then>
class load_window::answer {
 public:
  answer(std::shared_ptr<load_window> to, Then then) : to_(std::move(to)), then_(std::move(then)) {}
  answer(answer&&) noexcept = default;
  ~answer() {
    if (to_) to_->fail_for_memory();
  }

  template <class T>
  void operator()(const std::exception_ptr& failure, T value) {
    const std::shared_ptr<load_window> to = std::move(to_);
    try {
      then_(*to, failure, std::move(value));
    } catch (const std::bad_alloc&) {
      to->fail_for_memory();
    }
  }

 private:
  std::shared_ptr<load_window> to_;
  Then then_;
};

void load_window::await_front() {
  awaiting_ = true;
  const auto then = [](load_window& self, const std::exception_ptr& failure, tensor handed_out) {
    self.arrived(failure, std::move(handed_out));
  };
  begun_[front_].load->delivery.await_tensor(
      next_tensor_, make_operation<tensor>(boost::asio::bind_executor(
                        engine_->loop.get_executor(), answer(shared_from_this(), then))));
}

// Waits for a load whose tensors are handed out and that is not over. Returns false if no such load
// exists.
bool load_window::await_end() {
  const auto ending =
      std::ranges::find_if(begun_, [](const begun& b) { return b.load != nullptr; });
  if (ending == begun_.end()) return false;
  awaiting_ = true;
  const auto then = [](load_window& self, const std::exception_ptr& failure, model loaded) {
    self.awaiting_ = false;
    if (failure) self.failure_ = failure;
    loaded = model();  // Otherwise its memory would count as held.
    self.go_on();
  };
  ending->load->delivery.await_finish(make_operation<model>(
      boost::asio::bind_executor(engine_->loop.get_executor(), answer(shared_from_this(), then))));
  return true;
}

void load_window::fail_for_memory() noexcept {
  awaiting_ = false;
  set_failure(errc::memory_exceeded);
  fail_all();
}

void load_window::arrived(const std::exception_ptr& failure, tensor arrived_tensor) {
  awaiting_ = false;
  if (failure) {
    failure_ = failure;
    return fail_all();
  }
  ready_ = std::move(arrived_tensor);
  const std::size_t group = next_group_ - (begun_.size() - front_);
  ++next_tensor_;
  if (groups_[group].first + next_tensor_ == groups_[group].last) end_front();
  go_on();
}

// All tensors of the front group are handed out or in ready_. The load may have failed since.
void load_window::end_front() {
  begun& front = begun_[front_];
  const std::uint64_t page_bytes =
      window_page_bytes(engine_->devices.listed().front(), engine_->within);
  front.bytes = 0;  // From now on, the real size of the arenas.
  for (const auto& storage : front.load->arenas()) {
    if (!storage) continue;
    const std::uint64_t taken = round_up(storage->memory_bytes(), page_bytes);
    front.memory.push_back({storage, taken});
    front.bytes += taken;
  }
  ++front_;
  next_tensor_ = 0;
}

// Releases loads that are over. After that, only tensors of the caller keep the memory alive.
void load_window::release_ended() {
  for (std::size_t i = 0; i < front_; ++i) {
    begun& group = begun_[i];
    if (!group.load || !group.load->finished()) continue;
    if (!failure_) failure_ = group.load->failure();
    const std::lock_guard lock(mutex_);
    add_to(ended_, group.load->progress());
    std::erase(live_, group.load);
    group.load.reset();
  }
}

void load_window::fail_all() noexcept {
  while (!waiting_.empty()) {
    const waiting_ptr first = std::move(waiting_.front().operation);
    waiting_.pop_front();
    try {
      first->complete(failure_, std::nullopt);
    } catch (const std::bad_alloc&) {
    }
  }
}

void load_window::set_failure(const boost::system::error_code& code) noexcept {
  try {
    failure_ = to_exception(fault(code, printable_path(shown(request_))));
  } catch (const std::bad_alloc&) {
    failure_ = std::make_exception_ptr(std::bad_alloc());
  }
}

void load_window::cancel() noexcept {
  for (const begun& group : begun_) {
    if (group.load) group.load->cancel();
  }
  if (failure_) return;
  set_failure(boost::asio::error::operation_aborted);
  // An awaited tensor completes first, when its load is quiet.
  if (!awaiting_) fail_all();
}

void load_window::fill_stats(load_stats& s) const {
  const std::lock_guard lock(mutex_);
  add_to(s, ended_);
  for (const auto& load : live_) add_to(s, load->progress());
  const auto since_opened = [&](std::int64_t nanoseconds) {
    return s.seconds_opening + static_cast<double>(nanoseconds) * 1e-9;
  };
  s.seconds = since_opened(ended_at_ != 0 ? ended_at_.load() : nanoseconds());
  s.seconds_to_first_tensor = first_at_ != 0 ? since_opened(first_at_) : 0;
  if (s.seconds_to_first_byte > 0) s.seconds_to_first_byte += s.seconds_opening;
  s.bytes_total = chosen_->catalog().size_bytes();
  s.tensors_total = chosen_->catalog().tensors.size();
}

}  // namespace ringload::inline v0::detail
