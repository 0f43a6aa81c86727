// SPDX-License-Identifier: Apache-2.0
#include "support/fake_cudart/runtime.hpp"

#include <set>
#include <vector>

#include "support/fake_cudart/fake_cudart.hpp"

namespace ringload::testing::fake_cudart {

thread_local int current_device = 0;
thread_local cudaError_t last_error = cudaSuccess;
thread_local cudaStreamCaptureMode capture_mode = cudaStreamCaptureModeGlobal;

namespace {

// What the runtime's manual says of cudaThreadExchangeStreamCaptureMode: whatever may touch work
// of other threads. Of what ringload uses, these.
bool unsafe_beside_captures(const std::string& function) {
  static const std::set<std::string> all = {
      "cudaMalloc",         "cudaFree",   "cudaHostRegister",
      "cudaHostUnregister", "cudaMemcpy", "cudaStreamSynchronize",
      "cudaEventQuery",
  };
  return all.count(function) != 0;
}

}  // namespace

runtime& the() {
  static runtime one;
  return one;
}

call::call(const char* name) : lock(the().device.mutex), name_(name) {
  runtime& r = the();
  r.counts[name] += 1;
  if (last_error != cudaSuccess) {
    complain(std::string("an error was left behind: ") + cudaGetErrorName(last_error));
  }
  const auto found = r.failures.find(name);
  if (found != r.failures.end() && --found->second.calls_left == 0) {
    failed_ = found->second.with;
    r.failures.erase(found);
  }
  if (r.capturing) {
    const bool unsafe =
        unsafe_beside_captures(name_) && capture_mode != cudaStreamCaptureModeRelaxed;
    if (unsafe) r.capture_spoilt = true;
    if (unsafe || name_ == "cudaDeviceSynchronize") failed_ = cudaErrorStreamCaptureUnsupported;
  }
  if (r.device.broken != cudaSuccess) failed_ = r.device.broken;
}

cudaError_t call::says(cudaError_t answer) const noexcept {
  const cudaError_t said = failed() ? failed_ : answer;
  if (said != cudaSuccess) last_error = said;
  return said;
}

bool call::may_use(CUstream_st* stream) const {
  if (the().streams.count(stream) == 0) {
    complain("no such stream");
    return false;
  }
  if (stream->state->device != current_device) complain("another device's stream");
  return true;
}

void reset() {
  runtime& r = the();
  r.device.stop();
  const std::lock_guard lock(r.device.mutex);
  // What host functions that never ran were to be given: theirs for good, as with a real driver.
  static std::vector<void*>& never_given = *new std::vector<void*>;
  for (const auto& stream : r.device.streams) {
    for (const work& w : stream->held) {
      if (w.call) never_given.push_back(w.with);
    }
  }
  r.counts.clear();
  r.failures.clear();
  r.count_says = cudaSuccess;
  r.driver_version = 13000;
  r.capturing = r.capture_spoilt = false;
  r.device.forget_memory();
  r.device.streams.clear();
  r.device.pinned.clear();
  r.device.misuse.clear();
  r.device.held = false;
  r.device.broken = cudaSuccess;
  r.device.copies_until_break = 0;
  last_error = cudaSuccess;
}

void fail(const std::string& function, unsigned nth, cudaError_t with) {
  const std::lock_guard lock(the().device.mutex);
  the().failures[function] = {nth, with};
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

void begin_capture() {
  const std::lock_guard lock(the().device.mutex);
  the().capturing = true;
  the().capture_spoilt = false;
}

bool end_capture() {
  const std::lock_guard lock(the().device.mutex);
  the().capturing = false;
  return the().capture_spoilt;
}

void hold() {
  const std::lock_guard lock(the().device.mutex);
  the().device.held = true;
}

void let_go() {
  const std::lock_guard lock(the().device.mutex);
  the().device.held = false;
  the().device.changed.notify_all();
}

std::map<std::string, unsigned> calls() {
  const std::lock_guard lock(the().device.mutex);
  return the().counts;
}

std::size_t waiting_copies() {
  const std::lock_guard lock(the().device.mutex);
  std::size_t count = 0;
  for (const auto& stream : the().device.streams) {
    for (const work& w : stream->held) count += w.is_copy() ? 1 : 0;
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
  say(r.device.allocated(-1), " bytes of device memory ");
  say(r.device.pinned.size(), " pinned ranges ");
  say(r.streams.size(), " streams ");
  say(r.events.size(), " events ");
  return text;
}

std::vector<std::string> misuse() {
  const std::lock_guard lock(the().device.mutex);
  return the().device.misuse;
}

}  // namespace ringload::testing::fake_cudart
