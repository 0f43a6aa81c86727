// SPDX-License-Identifier: Apache-2.0

// The functions by which a test controls the stand-in and reads its state.

#include <cstring>
#include <vector>

#include "support/fake_cudart/fake_cudart.hpp"
#include "support/fake_cudart/runtime.hpp"

namespace ringload::testing::fake_cudart {

void reset() {
  runtime& r = the();
  r.device.stop();
  const std::lock_guard lock(r.device.mutex);
  r.counts.clear();
  r.failures.clear();
  r.captures.clear();
  r.contexts.clear();
  r.reaches.clear();
  r.connected = true;
  r.device.damages_across = false;
  r.device.stuck_across = false;
  r.is_integrated = false;
  r.moved = {};
  r.loaded_kernels.clear();
  r.default_streams.clear();
  r.count_says = cudaSuccess;
  r.driver_version = 13000;
  r.free_waits = true;
  r.pageable_expected = false;
  r.device.memory.forget();
  r.device.streams.clear();
  r.device.misuse.clear();
  r.device.held = r.device.holds_kernels = false;
  r.device.broken = cudaSuccess;
  r.device.copies_until_break = 0;
  r.device.chosen_by = &r.device.by_default;
  r.device_count = devices;
  last_error = cudaSuccess;
}

void have_devices(int count) {
  const std::lock_guard lock(the().device.mutex);
  the().device_count = count;
}

void choose_by(choices& by) {
  const std::lock_guard lock(the().device.mutex);
  the().device.chosen_by = &by;
}

void start() {
  const std::lock_guard lock(the().device.mutex);
  the().device.start_if_needed();
}

void fail(const std::string& function, unsigned nth, cudaError_t with) {
  const std::lock_guard lock(the().device.mutex);
  const auto before = the().counts.find(function);
  the().failures[{function, (before == the().counts.end() ? 0 : before->second) + nth}] = with;
}

void forget_failures() {
  const std::lock_guard lock(the().device.mutex);
  the().failures.clear();
}

void break_at_copy(unsigned nth, cudaError_t with) {
  const std::lock_guard lock(the().device.mutex);
  the().device.copies_until_break = nth;
  the().device.break_with = with;
}

void no_device(cudaError_t said, int driver_version) {
  const std::lock_guard lock(the().device.mutex);
  the().count_says = said;
  the().driver_version = driver_version;
}

void hold() {
  const std::lock_guard lock(the().device.mutex);
  the().device.held = true;
  the().device.changed.notify_all();
}

void hold_kernels() {
  const std::lock_guard lock(the().device.mutex);
  the().device.holds_kernels = true;
}

void let_go() {
  const std::lock_guard lock(the().device.mutex);
  the().device.held = the().device.holds_kernels = false;
  the().device.changed.notify_all();
}

void free_waits(bool does) {
  const std::lock_guard lock(the().device.mutex);
  the().free_waits = does;
}

void expect_pageable() {
  const std::lock_guard lock(the().device.mutex);
  the().pageable_expected = true;
}

std::map<std::string, unsigned> calls() {
  const std::lock_guard lock(the().device.mutex);
  return the().counts;
}

std::set<int> contexts() {
  const std::lock_guard lock(the().device.mutex);
  return the().contexts;
}

void integrate() {
  const std::lock_guard lock(the().device.mutex);
  the().is_integrated = true;
}

void not_connected() {
  const std::lock_guard lock(the().device.mutex);
  the().connected = false;
}

void badly_connected(bool stuck) {
  const std::lock_guard lock(the().device.mutex);
  the().device.damages_across = !stuck;
  the().device.stuck_across = stuck;
}

void reset_abandoned() {
  reset();
  const std::lock_guard lock(the().device.mutex);
  the().streams.clear();
  the().events.clear();
}

bytes_moved moved() {
  const std::lock_guard lock(the().device.mutex);
  return the().moved;
}

std::vector<const void*> pinned_memory() {
  const std::lock_guard lock(the().device.mutex);
  return the().device.memory.pinned();
}

bool write_by_drive(void* to, const void* from, std::size_t bytes) {
  device_side& device = the().device;
  const std::lock_guard lock(device.mutex);
  if (device.is_used(to, bytes)) {
    device.complain("a file is read into memory that a stream still uses");
  }
  std::byte* const there = device.memory.is_own(to, bytes, current_device)
                               ? device.memory.behind(to, bytes, current_device)
                               : nullptr;
  if (there == nullptr) return false;
  std::memcpy(there, from, bytes);
  device.memory.note_drive(to);
  return true;
}

bool is_device_memory(const void* memory, std::size_t bytes) {
  const std::lock_guard lock(the().device.mutex);
  return the().device.memory.is_own(memory, bytes, current_device);
}

std::size_t waiting_copies() {
  const std::lock_guard lock(the().device.mutex);
  std::size_t count = 0;
  for (const auto& stream : the().device.streams) {
    for (const work& w : stream->held) count += w.moves_bytes() ? 1 : 0;
  }
  return count;
}

std::string left_over() {
  runtime& r = the();
  const std::lock_guard lock(r.device.mutex);
  std::string text;
  const auto say = [&text](std::size_t count, const char* of_what) {
    if (count > 0) text += std::to_string(count) + of_what;
  };
  say(r.device.memory.allocated(-1), " bytes of device memory ");
  say(r.device.memory.handles_and_addresses(), " handles and reserved addresses ");
  say(r.device.memory.pinned().size(), " pinned ranges ");
  say(r.streams.size(), " streams ");
  say(r.events.size(), " events ");
  return text;
}

std::vector<std::string> misuse() {
  const std::lock_guard lock(the().device.mutex);
  return the().device.misuse;
}

}  // namespace ringload::testing::fake_cudart
