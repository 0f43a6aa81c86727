// SPDX-License-Identifier: Apache-2.0

// Loads tensors in groups that fit into a limited amount of memory, the window. Each group has a
// job (load) of its own. The front group is the first group whose tensors are not all delivered.

#include "load/load_window.hpp"

#include <algorithm>
#include <boost/asio/bind_executor.hpp>
#include <boost/asio/error.hpp>
#include <chrono>
#include <utility>

#include "base/checked.hpp"
#include "base/printable.hpp"
#include "base/retry_allocation.hpp"
#include "load/job.hpp"
#include "load/tensor_storage.hpp"
#include "runtime/engine.hpp"

namespace ringload::inline v0::detail {

load_window::load_window(std::shared_ptr<engine> e, load_request request,
                         std::shared_ptr<const named_catalog> chosen,
                         std::vector<window_group> groups, std::shared_ptr<load_counters> counters)
    : engine_(std::move(e)),
      checksums_(request.options.verify.checksums
                     ? std::make_unique<const checksum_list>(*request.options.verify.checksums)
                     : nullptr),
      request_(with_checksum_list(std::move(request), checksums_.get())),
      chosen_(std::move(chosen)),
      groups_(std::move(groups)),
      counters_(std::move(counters)),
      release_timer_(engine_->loop) {}

void load_window::started_group::erase_freed_arenas() {
  std::erase_if(memory, [this](const held_arena& arena) {
    const bool is_freed = arena.memory.expired();
    if (is_freed) bytes -= std::min(bytes, arena.bytes);
    return is_freed;
  });
}

std::uint64_t load_window::erase_freed_groups() {
  release_ended();
  std::uint64_t sum = 0;
  for (std::size_t i = 0; i < started_groups_.size();) {
    const bool has_ended = i < front_ && !started_groups_[i].load;
    if (has_ended) started_groups_[i].erase_freed_arenas();
    if (has_ended && started_groups_[i].memory.empty()) {
      started_groups_.erase(started_groups_.begin() + static_cast<std::ptrdiff_t>(i));
      --front_;
    } else {
      sum += started_groups_[i++].bytes;
    }
  }
  return sum;
}

void load_window::begin_groups() {
  const std::uint64_t window_bytes = request_.window_bytes;
  std::uint64_t live = erase_freed_groups();
  while (!failure_ && next_group_ < groups_.size() &&
         live + groups_[next_group_].bytes <= window_bytes) {
    const window_group& group = groups_[next_group_];
    load_request group_request = request_;
    group_request.window_bytes = 0;
    group_request.chosen_begin = group.first;
    group_request.chosen_end = group.last;
    auto load = std::make_shared<job>(engine_, std::move(group_request), counters_);
    started_groups_.push_back({group.bytes, load, {}, {}});
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
    retry_allocation([&] { self->engine_->post([self, id] { self->cancel_wait(id); }); });
  });
  waiting_.push_back({id, std::move(waiting)});
  advance();
}

void load_window::cancel_wait(std::uint64_t id) {
  const auto found = std::ranges::find(waiting_, id, &waiter::id);
  if (found == waiting_.end()) return;
  const waiting_ptr cancelled = std::move(found->operation);
  waiting_.erase(found);
  const fault cause(boost::asio::error::operation_aborted, "",
                    "the wait was cancelled, not the load");
  cancelled->fail(cause);
}

void load_window::deliver(std::optional<tensor> next_tensor) {
  if (!next_tensor) counters_->set_ended();
  const waiting_ptr first = std::move(waiting_.front().operation);
  waiting_.pop_front();
  first->complete(std::move(next_tensor));
}

void load_window::advance() noexcept {
  try {
    serve_waiting();
  } catch (const std::bad_alloc&) {
    fail_for_memory();
  }
}

void load_window::serve_waiting() {
  while (!waiting_.empty() && !awaiting_) {
    if (failure_) return fail_all();
    if (ready_) {
      deliver(std::exchange(ready_, std::nullopt));
      continue;
    }
    begin_groups();
    if (failure_) return fail_all();
    if (front_ < started_groups_.size()) return await_front();
    // The last group may still fail after its tensors were delivered, because its files are checked
    // again at the end.
    if (await_end()) return;
    if (next_group_ == groups_.size()) {
      deliver(std::nullopt);
      continue;
    }
    if (await_release()) return;
    // The caller holds tensors whose memory fills the window. The operation fails, because the
    // caller might never release these tensors.
    const tensor_info& info = chosen_->catalog().tensors[groups_[next_group_].first];
    const fault full(
        errc::memory_exceeded,
        printable_path(chosen_->catalog().files[info.file].path) + ": " + tensor_place(info.name),
        "the window of " + grouped(request_.window_bytes) +
            " bytes is full: release tensors that the stream has returned");
    const waiting_ptr first = std::move(waiting_.front().operation);
    waiting_.pop_front();
    first->fail(full);
  }
}

// Completion handler of an operation on a job. If no memory is left to post the handler, the
// handler is destroyed without a call. Its destructor then reports the failure to the window.
template <class OnCompletion>
class load_window::job_handler {
 public:
  job_handler(std::shared_ptr<load_window> window, std::shared_ptr<job> load,
              OnCompletion on_completion)
      : window_(std::move(window)),
        load_(std::move(load)),
        on_completion_(std::move(on_completion)) {}
  job_handler(job_handler&&) noexcept = default;
  ~job_handler() {
    if (window_) window_->fail_for_memory();
  }

  template <class T>
  void operator()(const boost::system::error_code& failed, T value) {
    const std::shared_ptr<load_window> window = std::move(window_);
    try {
      window->awaiting_ = false;
      if (failed && !window->failure_) window->failure_ = load_->outcome().cause();
      // Releases the job. Otherwise its memory would count as memory that the caller holds.
      load_.reset();
      on_completion_(*window, std::move(value));
    } catch (const std::bad_alloc&) {
      window->fail_for_memory();
    }
  }

 private:
  std::shared_ptr<load_window> window_;
  std::shared_ptr<job> load_;
  OnCompletion on_completion_;
};

void load_window::await_front() {
  awaiting_ = true;
  const auto on_completion = [](load_window& self, tensor loaded_tensor) {
    self.on_front_tensor(std::move(loaded_tensor));
  };
  const std::shared_ptr<job>& load = started_groups_[front_].load;
  load->delivery.await_tensor(
      next_tensor_, make_operation<tensor>(job_handler(shared_from_this(), load, on_completion),
                                           engine_->loop.get_executor(), cancel_never));
}

// Waits for a job that has delivered all its tensors but has not finished. Returns false if every
// started job has finished.
bool load_window::await_end() {
  const auto ending = std::ranges::find_if(
      started_groups_, [](const started_group& group) { return group.load != nullptr; });
  if (ending == started_groups_.end()) return false;
  awaiting_ = true;
  const auto on_completion = [](load_window& self, model loaded) {
    // Releases the model. Otherwise its memory would count as memory that the caller holds.
    loaded = model();
    self.advance();
  };
  ending->load->delivery.await_finish(
      make_operation<model>(job_handler(shared_from_this(), ending->load, on_completion),
                            engine_->loop.get_executor(), cancel_never));
  return true;
}

// If an ended job still exists and may hold memory, calls advance() again soon, and returns true.
// Otherwise returns false. The job may be held for long, so the engine thread must not poll without
// a pause.
bool load_window::await_release() {
  const bool holds_memory = std::ranges::any_of(
      started_groups_, [](const started_group& group) { return !group.ended.expired(); });
  if (!holds_memory) return false;
  awaiting_ = true;
  release_timer_.expires_after(std::chrono::microseconds(100));
  retry_allocation([&] {
    release_timer_.async_wait([self = shared_from_this()](const boost::system::error_code&) {
      self->awaiting_ = false;
      self->advance();
    });
  });
  return true;
}

void load_window::fail_for_memory() noexcept {
  awaiting_ = false;
  set_failure(errc::memory_exceeded);
  fail_all();
}

void load_window::on_front_tensor(tensor loaded_tensor) {
  if (failure_) return fail_all();
  ready_ = std::move(loaded_tensor);
  const std::size_t group = next_group_ - (started_groups_.size() - front_);
  ++next_tensor_;
  if (groups_[group].first + next_tensor_ == groups_[group].last) end_front();
  advance();
}

// Called when the last tensor of the front group is in ready_. If the job of the group has failed,
// job::arenas() is empty.
void load_window::end_front() {
  started_group& front = started_groups_[front_];
  const std::uint64_t page_bytes =
      window_page_bytes(engine_->devices.listed().front(), engine_->options);
  front.bytes = 0;  // The loop adds the sizes of the arenas.
  for (const auto& storage : front.load->arenas()) {
    if (!storage) continue;
    const std::uint64_t allocated_bytes = round_up(storage->memory_bytes(), page_bytes);
    front.memory.push_back({storage, allocated_bytes});
    front.bytes += allocated_bytes;
  }
  ++front_;
  next_tensor_ = 0;
}

// Releases the finished jobs of groups whose tensors are all delivered. When the last reference to
// a job is gone (see started_group::ended), only the caller's tensors keep the memory of its group
// alive.
void load_window::release_ended() {
  for (std::size_t i = 0; i < front_; ++i) {
    started_group& group = started_groups_[i];
    if (!group.load || !group.load->finished()) continue;
    if (!failure_ && group.load->stopped()) failure_ = group.load->outcome().cause();
    group.ended = group.load;
    group.load.reset();
  }
}

void load_window::fail_all() noexcept {
  while (!waiting_.empty()) {
    const waiting_ptr first = std::move(waiting_.front().operation);
    waiting_.pop_front();
    try {
      first->fail(*failure_);
    } catch (const std::bad_alloc&) {
    }
  }
}

void load_window::set_failure(const boost::system::error_code& code) noexcept {
  try {
    failure_ = fault(code, printable_path(shown(request_)));
  } catch (const std::bad_alloc&) {
    failure_ = fault(errc::memory_exceeded, {});
  }
}

void load_window::cancel() noexcept {
  for (const started_group& group : started_groups_) {
    if (group.load) group.load->cancel();
  }
  if (failure_) return;
  set_failure(boost::asio::error::operation_aborted);
  // If awaiting_ is true, the handler of a job or of release_timer_ is pending, and the handler
  // fails all waiting operations. A job calls its handler after the last read and the last check,
  // but after loader_options::stop_time_max at the latest.
  if (!awaiting_) fail_all();
}

}  // namespace ringload::inline v0::detail
