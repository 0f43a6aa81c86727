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

void add_to(load_stats& sum, const load_stats& one) {
  sum.bytes += one.bytes;
  sum.tensors += one.tensors;
  sum.bytes_direct += one.bytes_direct;
  sum.bytes_buffered += one.bytes_buffered;
  sum.bytes_straight += one.bytes_straight;
  sum.bytes_remote += one.bytes_remote;
  sum.bytes_verified += one.bytes_verified;
  sum.reads += one.reads;
  sum.short_reads += one.short_reads;
  sum.retries += one.retries;
  sum.requests += one.requests;
  sum.requests_repeated += one.requests_repeated;
  sum.seconds_device_wait += one.seconds_device_wait;
  sum.seconds_memory_wait += one.seconds_memory_wait;
  // Of the first, which begins with the window.
  if (sum.seconds_to_first_byte == 0) sum.seconds_to_first_byte = one.seconds_to_first_byte;
}

}  // namespace

load_window::load_window(std::shared_ptr<engine> e, load_request what,
                         std::shared_ptr<const named_catalog> chosen,
                         std::vector<window_group> groups, std::shared_ptr<file_counters> per_file)
    : engine_(std::move(e)),
      listed_(what.options.verify.checksums
                  ? std::make_unique<const manifest>(*what.options.verify.checksums)
                  : nullptr),
      request_(with_listed(std::move(what), listed_.get())),
      chosen_(std::move(chosen)),
      groups_(std::move(groups)),
      per_file_(std::move(per_file)) {}

void load_window::begun::forget_returned() {
  std::erase_if(memory, [this](const held_arena& one) {
    const bool is_back = one.memory.expired();
    if (is_back) bytes -= std::min(bytes, one.bytes);
    return is_back;
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
    load_request what = request_;
    what.options.window_bytes = 0;
    what.only_first = group.first;
    what.only_last = group.last;
    auto load = std::make_shared<job>(engine_, std::move(what), per_file_);
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
  const auto at = std::ranges::find(waiting_, id, &waiter::id);
  if (at == waiting_.end()) return;
  const waiting_ptr gone = std::move(at->operation);
  waiting_.erase(at);
  const fault why(boost::asio::error::operation_aborted, "",
                  "the wait was cancelled, not the load");
  gone->complete(to_exception(why), std::nullopt);
}

std::int64_t load_window::nanoseconds() const noexcept {
  return std::max<std::int64_t>(1, std::chrono::nanoseconds(clock::now() - constructed_).count());
}

void load_window::hand_out(std::optional<tensor> one) {
  if (one && first_at_ == 0) first_at_ = nanoseconds();
  if (!one && ended_at_ == 0) ended_at_ = nanoseconds();
  const waiting_ptr first = std::move(waiting_.front().operation);
  waiting_.pop_front();
  first->complete(nullptr, std::move(one));
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
    // A group may fail once its tensors are handed out, since its files are looked at again.
    if (await_end()) return;
    if (next_group_ == groups_.size()) {
      hand_out(std::nullopt);
      continue;
    }
    // All that fits is held by tensors that somebody has: waiting could be for ever.
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

// A job's answer to the window. Where there is no memory to post it, it is destroyed uncalled.
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
  const auto then = [](load_window& self, const std::exception_ptr& failure, tensor one) {
    self.arrived(failure, std::move(one));
  };
  begun_[front_].load->delivery.await_tensor(
      next_tensor_, make_operation<tensor>(boost::asio::bind_executor(
                        engine_->loop.get_executor(), answer(shared_from_this(), then))));
}

// Waits for a load that has given out its tensors and is not quite over. False: there is none.
bool load_window::await_end() {
  const auto ending =
      std::ranges::find_if(begun_, [](const begun& b) { return b.load != nullptr; });
  if (ending == begun_.end()) return false;
  awaiting_ = true;
  const auto then = [](load_window& self, const std::exception_ptr& failure, model loaded) {
    self.awaiting_ = false;
    if (failure) self.failure_ = failure;
    loaded = model();  // Or its memory would count as held.
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

void load_window::arrived(const std::exception_ptr& failure, tensor one) {
  awaiting_ = false;
  if (failure) {
    failure_ = failure;
    return fail_all();
  }
  ready_ = std::move(one);
  const std::size_t group = next_group_ - (begun_.size() - front_);
  ++next_tensor_;
  if (groups_[group].first + next_tensor_ == groups_[group].last) end_front();
  go_on();
}

// All its tensors are handed out, or in hand; the load may have failed since.
void load_window::end_front() {
  begun& front = begun_[front_];
  const std::uint64_t page_bytes =
      window_page_bytes(engine_->devices.listed().front(), engine_->within);
  front.bytes = 0;  // From here on, what was really taken.
  for (const auto& each : front.load->arenas()) {
    if (!each) continue;
    const std::uint64_t taken = round_up(each->memory_bytes(), page_bytes);
    front.memory.push_back({each, taken});
    front.bytes += taken;
  }
  ++front_;
  next_tensor_ = 0;
}

// A load that is over holds its memory no longer; then only whoever has a tensor does.
void load_window::release_ended() {
  for (std::size_t i = 0; i < front_; ++i) {
    begun& each = begun_[i];
    if (!each.load || !each.load->finished()) continue;
    if (!failure_) failure_ = each.load->failure();
    const std::lock_guard lock(mutex_);
    add_to(ended_, each.load->progress());
    std::erase(live_, each.load);
    each.load.reset();
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
  for (const begun& each : begun_) {
    if (each.load) each.load->cancel();
  }
  if (failure_) return;
  set_failure(boost::asio::error::operation_aborted);
  // An awaited tensor comes first: it completes when its load is quiet.
  if (!awaiting_) fail_all();
}

void load_window::fill_stats(load_stats& s) const {
  const std::lock_guard lock(mutex_);
  add_to(s, ended_);
  for (const auto& each : live_) add_to(s, each->progress());
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
