// SPDX-License-Identifier: Apache-2.0
#include "support/fake_cudart/device.hpp"

#include <pthread.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "support/certain_memory.hpp"
#include "support/fake_cudart/fake_cudart.hpp"

namespace ringload::testing::fake_cudart {

thread_local bool in_host_function = false;

namespace {

struct used_range {
  const void* begin = nullptr;
  std::size_t bytes = 0;
  bool is_written = false;
};

bool overlap(const used_range& a, const used_range& b) {
  const auto a_begin = reinterpret_cast<std::uintptr_t>(a.begin);
  const auto b_begin = reinterpret_cast<std::uintptr_t>(b.begin);
  return a_begin < b_begin + b.bytes && b_begin < a_begin + a.bytes;
}

// Returns true if `found` returns true for a range of memory that the task reads or writes.
template <class Found>
bool any_range(const work& task, Found found) {
  if ((task.from || task.clears) && found(used_range{task.to, task.to_bytes(), true})) return true;
  if (task.from && found(used_range{task.from, task.from_bytes(), false})) return true;
  if (!task.kernel) return false;
  return std::visit(
      [&](const auto& table) {
        return std::any_of(table.pieces, table.pieces + table.count, [&](const auto& piece) {
          const std::byte* const to = static_cast<const std::byte*>(piece.to) + target_begin(piece);
          return found(used_range{to, target_bytes(piece), true}) ||
                 found(used_range{piece.from, source_bytes(piece), false});
        });
      },
      task.kernel->table);
}

// Returns true if one task writes memory that the other task reads.
bool conflict(const work& a, const work& b) {
  return any_range(a, [&b](const used_range& of_a) {
    return any_range(b, [&of_a](const used_range& of_b) {
      return of_a.is_written != of_b.is_written && overlap(of_a, of_b);
    });
  });
}

}  // namespace

void device_side::stop() {
  {
    const std::lock_guard lock(mutex);
    stopping_ = true;
    changed.notify_all();
  }
  if (thread_.joinable()) thread_.join();
  if (host_functions_.joinable()) host_functions_.join();
  stopping_ = false;
  host_calls_.clear();
}

void device_side::start_if_needed() {
  if (host_functions_.joinable()) return;
  // A new thread has the name of the thread that starts it, which may be a thread of the library.
  const auto name = [](std::thread& started) {
    ::pthread_setname_np(started.native_handle(), "fake-device");
  };
  if (!thread_.joinable()) thread_ = std::thread([this] { run(); });
  name(thread_);
  host_functions_ = std::thread([this] { run_host_functions(); });
  name(host_functions_);
}

void device_side::push(std::unique_lock<std::mutex>& lock, stream_state& on, work what) {
  changed.wait(lock, [&] { return on.held.size() < held_max || held || broken != cudaSuccess; });
  if (chosen_by->checks_order() && broken == cudaSuccess) check_order(on, what);
  on.held.push_back(std::move(what));
}

bool device_side::drain(std::unique_lock<std::mutex>& lock, const stream_state& which) {
  changed.wait(lock, [&] { return broken != cudaSuccess || (which.held.empty() && !which.busy); });
  return broken == cudaSuccess;
}

bool device_side::drain_all(std::unique_lock<std::mutex>& lock, int device) {
  const auto all = streams;
  return std::all_of(all.begin(), all.end(), [&](const auto& each) {
    return each->device != device || drain(lock, *each);
  });
}

bool device_side::is_used(const void* begin, std::size_t bytes) const {
  if (broken != cudaSuccess) return false;  // A broken device carries out no more tasks.
  return std::any_of(streams.begin(), streams.end(), [&](const auto& stream) {
    return std::any_of(stream->held.begin(), stream->held.end(), [&](const work& w) {
      return any_range(
          w, [&](const used_range& used) { return overlap(used, {begin, bytes, false}); });
    });
  });
}

void device_side::check_order(const stream_state& on, const work& added) {
  for (const auto& stream : streams) {
    if (stream.get() == &on) continue;
    for (const work& queued : stream->held) {
      if (conflict(queued, added)) complain("two streams use the same memory without an order");
    }
  }
}

void device_side::run() {
  const certain_memory for_the_stand_in;
  std::unique_lock lock(mutex);
  while (!stopping_) {
    const clock::time_point now = clock::now();
    clock::time_point next = clock::time_point::max();
    if (const auto chosen = choose(now, next)) {
      advance(chosen, now);
    } else if (next == clock::time_point::max()) {
      changed.wait(lock);
    } else {
      changed.wait_until(lock, next);
    }
  }
}

void device_side::run_host_functions() {
  const certain_memory for_the_stand_in;
  in_host_function = true;
  std::unique_lock lock(mutex);
  for (;;) {
    changed.wait(lock, [this] { return stopping_ || !host_calls_.empty(); });
    if (stopping_) return;
    const host_call one = host_calls_.front();
    host_calls_.pop_front();
    lock.unlock();
    one.call(one.with);
    lock.lock();
    one.of->busy = false;
    changed.notify_all();
  }
}

bool device_side::may_advance(const stream_state& stream) const {
  if (stream.busy || stream.held.empty()) return false;
  const work& first = stream.held.front();
  return stream.is_carried_out || (first.may_run() && !(holds_kernels && first.kernel) &&
                                   !(stuck_across && first.from_device >= 0));
}

// A random stream whose first task can be carried out or can end. Null if there is none. `next`
// becomes the time at which there may be one.
std::shared_ptr<stream_state> device_side::choose(clock::time_point now, clock::time_point& next) {
  if (held || broken != cudaSuccess) return nullptr;
  std::erase_if(streams, [](const auto& each) {
    return each.use_count() == 1 && each->held.empty() && !each->busy;
  });
  std::vector<std::shared_ptr<stream_state>> ready;
  for (const auto& each : streams) {
    if (!may_advance(*each)) continue;
    if (!each->due) each->due = now + chosen_by->delay();
    if (*each->due <= now) {
      ready.push_back(each);
    } else {
      next = std::min(next, *each->due);
    }
  }
  if (ready.empty()) return nullptr;
  return ready[chosen_by->below(static_cast<unsigned>(ready.size()))];
}

// Carries out the first task, or ends the task. The task uses its memory until its end.
void device_side::advance(const std::shared_ptr<stream_state>& in, clock::time_point now) {
  if (!in->is_carried_out) {
    const work& first = in->held.front();
    carry_out(first, in);
    in->is_carried_out = true;
    in->due = now + (first.moves_bytes() ? chosen_by->rest() : std::chrono::nanoseconds(0));
    if (*in->due > now) return;
  }
  in->is_carried_out = false;
  in->due.reset();
  in->held.pop_front();
  changed.notify_all();
}

void device_side::carry_out(const work& what, const std::shared_ptr<stream_state>& in) {
  if (what.moves_bytes() && copies_until_break > 0 && --copies_until_break == 0) {
    broken = break_with;
    changed.notify_all();
  } else if (what.from) {
    copy(what, in->device);
  } else if (what.clears) {
    clear(what, in->device);
  } else if (what.kernel) {
    launch(*what.kernel, in->device);
  } else if (what.reach) {
    what.reach->reached = what.times;
  } else if (what.call) {
    in->busy = true;
    host_calls_.push_back({in, what.call, what.with});
  }
}

// The source is a tensor, so it is not overwritten.
void device_side::copy_across(const work& what, int device) {
  std::byte* const to = memory.behind(what.to, what.bytes, device);
  const std::byte* const from = memory.behind(what.from, what.bytes, what.from_device);
  if (!to || !from) return complain("a copy is carried out after device memory was given back");
  std::memcpy(to, from, what.bytes);
  if (damages_across && what.bytes > 0) to[what.bytes - 1] ^= std::byte{1};
}

// A slot on the device is overwritten. Other sources are tensors.
void device_side::copy_within(const work& what, int device) {
  std::byte* const to = memory.behind(what.to, what.to_bytes(), device);
  std::byte* const from = memory.behind(what.from, what.from_bytes(), device);
  if (!to || !from) return complain("a copy is carried out after device memory was given back");
  for (std::size_t row = 0; row < what.rows; ++row) {
    std::memcpy(to + row * what.to_stride, from + row * what.from_stride, what.bytes);
  }
  if (memory.is_of_drive(what.from)) std::memset(from, poison, what.from_bytes());
}

void device_side::clear(const work& what, int device) {
  std::byte* const to = memory.behind(what.to, what.bytes, device);
  if (!to) return complain("memory is cleared after it was given back");
  std::memset(to, 0, what.bytes);
}

void device_side::copy(const work& what, int device) {
  if (what.within_device) return copy_within(what, device);
  if (what.from_device >= 0) return copy_across(what, device);
  const void* const on_device = what.to_host ? what.from : what.to;
  const void* const on_host = what.to_host ? what.to : what.from;
  std::byte* const there = memory.behind(on_device, what.bytes, device);
  if (!there) return complain("a copy is carried out after device memory was given back");
  if (!memory.is_pinned(on_host, what.bytes, device)) {
    return complain("a copy is carried out after host memory was unpinned");
  }
  if (what.to_host) {
    std::memcpy(what.to, there, what.bytes);
  } else {
    std::memcpy(there, what.from, what.bytes);
    // Memory that is pinned for several devices may still be read by another device.
    if (memory.is_portable(what.from) || !chosen_by->destroys_sources()) return;
    std::memset(const_cast<void*>(what.from), poison, what.bytes);
  }
}

void device_side::launch(const kernel_launch& what, int device) {
  kernel_launch::any_table here = what.table;
  const bool there = std::visit(
      [&](auto& table) {
        for (unsigned i = 0; i < table.count; ++i) {
          auto& piece = table.pieces[i];
          const std::ptrdiff_t begin = target_begin(piece);
          std::byte* const to =
              memory.behind(static_cast<std::byte*>(piece.to) + begin, target_bytes(piece), device);
          piece.from = memory.behind(piece.from, source_bytes(piece), device);
          if (!piece.from || !to) return false;
          piece.to = to - begin;
        }
        return true;
      },
      here);
  if (!there) return complain("a kernel is run after its memory was given back");
  what.run(here);
  // Boxes may interleave, and the next launch may need the bytes between these boxes.
  const auto* const scattered = std::get_if<cuda::scatter_table>(&here);
  for (unsigned i = 0; scattered && i < scattered->count; ++i) {
    const cuda::scatter_piece& piece = scattered->pieces[i];
    if (memory.is_portable(piece.from) || !chosen_by->destroys_sources()) continue;
    std::memset(const_cast<void*>(piece.from), poison, source_bytes(piece));
  }
}

}  // namespace ringload::testing::fake_cudart
