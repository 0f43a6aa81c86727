// SPDX-License-Identifier: Apache-2.0
#include "support/fake_cudart/device.hpp"

#include <pthread.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <utility>

#include "support/certain_memory.hpp"
#include "support/fake_cudart/fake_cudart.hpp"

namespace ringload::testing::fake_cudart {

thread_local bool in_host_function = false;

namespace {

// One of this number of tasks is delayed, by at most this number of microseconds.
constexpr unsigned late_one_in = 8;
constexpr unsigned late_at_most = 400;

bool overlaps(const void* a, std::size_t a_bytes, const void* b, std::size_t b_bytes) {
  const auto from = reinterpret_cast<std::uintptr_t>(a);
  const auto with = reinterpret_cast<std::uintptr_t>(b);
  return from < with + b_bytes && with < from + a_bytes;
}

bool uses(const work& what, const void* begin, std::size_t bytes) {
  if (what.from || what.clears) {
    return overlaps(what.to, what.to_bytes(), begin, bytes) ||
           (what.from && overlaps(what.from, what.from_bytes(), begin, bytes));
  }
  if (!what.kernel) return false;
  return std::visit(
      [&](const auto& table) {
        return std::any_of(table.pieces, table.pieces + table.count, [&](const auto& piece) {
          const std::byte* const to = static_cast<const std::byte*>(piece.to) + target_begin(piece);
          return overlaps(to, target_bytes(piece), begin, bytes) ||
                 overlaps(piece.from, source_bytes(piece), begin, bytes);
        });
      },
      what.kernel->table);
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
  if (thread_.joinable()) return;
  thread_ = std::thread([this] { run(); });
  host_functions_ = std::thread([this] { run_host_functions(); });
  // A new thread has the name of the thread that starts it, which may be a thread of the library.
  for (std::thread* started : {&thread_, &host_functions_}) {
    ::pthread_setname_np(started->native_handle(), "fake-device");
  }
}

void device_side::push(std::unique_lock<std::mutex>& lock, stream_state& on, work what) {
  changed.wait(lock, [&] { return on.held.size() < held_max || held || broken != cudaSuccess; });
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
    return std::any_of(stream->held.begin(), stream->held.end(),
                       [&](const work& w) { return uses(w, begin, bytes); });
  });
}

void device_side::run() {
  const certain_memory for_the_stand_in;
  std::unique_lock lock(mutex);
  while (!stopping_) {
    if (held || broken != cudaSuccess || !choose()) {
      changed.wait(lock);
      continue;
    }
    if (random_() % late_one_in == 0) {
      // Tasks that arrive meanwhile can be chosen too.
      const auto late = std::chrono::microseconds(random_() % late_at_most);
      changed.wait_for(lock, late, [this] { return stopping_; });
    }
    if (stopping_ || held || broken != cudaSuccess) continue;
    if (const auto in = choose()) carry_out(in);
  }
}

void device_side::run_host_functions() {
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

// A random stream whose next task can run. Null if there is none.
std::shared_ptr<stream_state> device_side::choose() {
  std::vector<std::shared_ptr<stream_state>> ready;
  for (const auto& each : streams) {
    if (each->busy || each->held.empty() || !each->held.front().may_run()) continue;
    if (holds_kernels && each->held.front().kernel) continue;
    if (stuck_across && each->held.front().from_device >= 0) continue;
    ready.push_back(each);
  }
  return ready.empty() ? nullptr : ready[random_() % ready.size()];
}

void device_side::carry_out(const std::shared_ptr<stream_state>& in) {
  const work what = std::move(in->held.front());
  in->held.pop_front();
  if (what.moves_bytes() && copies_until_break > 0 && --copies_until_break == 0) {
    broken = break_with;
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
  changed.notify_all();
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
    if (memory.is_portable(what.from)) return;
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
    if (memory.is_portable(piece.from)) continue;
    std::memset(const_cast<void*>(piece.from), poison, source_bytes(piece));
  }
}

}  // namespace ringload::testing::fake_cudart
