// SPDX-License-Identifier: Apache-2.0
#include "support/fake_cudart/runtime.hpp"

#include <algorithm>

#include "support/fake_cudart/fake_cudart.hpp"

namespace ringload::testing::fake_cudart {

thread_local int current_device = 0;
thread_local cudaError_t last_error = cudaSuccess;
thread_local cudaStreamCaptureMode capture_mode = cudaStreamCaptureModeGlobal;

namespace {

// The functions that are unsafe during a capture, according to the manual of
// cudaThreadExchangeStreamCaptureMode: those of ringload that may affect work of other threads.
bool unsafe_beside_captures(const std::string& function) {
  static const std::set<std::string> all = {
      "cudaMalloc",           "cudaFree",           "cudaHostRegister",
      "cudaEventQuery",       "cudaHostUnregister", "cudaStreamSynchronize",
      "cudaEventSynchronize",
  };
  return all.count(function) != 0;
}

// All other functions create a context of the current device if there is none.
bool needs_no_context(const std::string& function) {
  static const std::set<std::string> all = {"cudaDriverGetVersion", "cudaGetDeviceCount",
                                            "cudaGetDevice", "cudaGetDriverEntryPointByVersion",
                                            "cuDeviceGetUuid"};
  return all.count(function) != 0;
}

}  // namespace

runtime& the() {
  static runtime one;
  return one;
}

call::call(const char* name) : lock(the().device.mutex), name_(name) {
  runtime& r = the();
  const unsigned nth = ++r.counts[name];
  if (in_host_function) complain("called in a host function");
  if (last_error != cudaSuccess) {
    complain(std::string("an error was left behind: ") + cudaGetErrorName(last_error));
  }
  const auto found = r.failures.find({name, nth});
  if (found != r.failures.end()) failed_ = found->second;
  // cudaSetDevice itself creates the context of the new device.
  if (!needs_no_context(name_) && name_ != "cudaSetDevice") r.contexts.insert(current_device);
  fail_beside_captures();
  if (!failed()) failed_ = r.device.chosen_by->failure(name_);
  if (r.device.broken != cudaSuccess) failed_ = r.device.broken;
}

// In the global mode, calls of all threads count, unless they have relaxed their mode. In the
// thread-local mode, only calls of the capturing thread count.
void call::fail_beside_captures() {
  if (!unsafe_beside_captures(name_) || capture_mode == cudaStreamCaptureModeRelaxed) return;
  for (capture& each : the().captures) {
    const bool counts =
        each.mode == cudaStreamCaptureModeGlobal ||
        (each.mode == cudaStreamCaptureModeThreadLocal && each.by == std::this_thread::get_id());
    if (!counts) continue;
    each.invalidated = true;
    failed_ = cudaErrorStreamCaptureUnsupported;
  }
}

cudaError_t call::says(cudaError_t answer) const noexcept {
  const cudaError_t said = failed() ? failed_ : answer;
  if (said != cudaSuccess) last_error = said;
  return said;
}

bool call::is_known(CUstream_st* stream) const {
  if (!stream || the().streams.count(stream) != 0) return true;
  complain("no such stream");
  return false;
}

bool call::may_use(CUstream_st* stream) const {
  if (!is_known(stream)) return false;
  if (stream && stream->state->device != current_device) complain("another device's stream");
  return true;
}

void call::await_all_of(stream_state& first, stream_state& then) {
  if (first.held.empty() && !first.busy) return;
  const auto passed = std::make_shared<event_state>();
  work mark;
  mark.reach = passed;
  mark.times = passed->recorded = 1;
  first.held.push_back(std::move(mark));
  work wait;
  wait.await = passed;
  wait.times = 1;
  then.held.push_back(std::move(wait));
}

std::shared_ptr<stream_state> call::state_of(CUstream_st* stream) {
  runtime& r = the();
  auto& by_default = r.default_streams[current_device];
  if (!by_default) {
    by_default = std::make_shared<stream_state>();
    by_default->device = current_device;
    r.device.streams.push_back(by_default);
    r.device.start_if_needed();
  }
  if (stream) {
    if (stream->state->blocking) await_all_of(*by_default, *stream->state);
    return stream->state;
  }
  bool forbidden = false;
  for (capture& each : r.captures) {
    if (!each.stream->state->blocking) continue;
    each.invalidated = forbidden = true;
  }
  if (forbidden) return nullptr;
  for (const auto& each : r.device.streams) {
    if (each->blocking && each->device == current_device) await_all_of(*each, *by_default);
  }
  return by_default;
}

void call::wait_for_device() {
  if (the().free_waits) (void)the().device.drain_all(lock, current_device);
}

void call::push(CUstream_st* stream, work what) {
  runtime& r = the();
  for (const capture& each : r.captures) {
    if (each.stream == stream) return;
  }
  if (const auto on = state_of(stream)) {
    r.device.push(lock, *on, std::move(what));
  } else if (!failed()) {
    failed_ = cudaErrorStreamCaptureImplicit;
  }
}

}  // namespace ringload::testing::fake_cudart
