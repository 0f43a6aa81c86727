// SPDX-License-Identifier: Apache-2.0

// The functions for streams, events, graphs, copies and kernels.

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "support/fake_cudart/fake_cudart.hpp"
#include "support/fake_cudart/runtime.hpp"

namespace ringload::testing::fake_cudart {

namespace {

cudaError_t make_stream(call& now, cudaStream_t* stream, unsigned int flags) {
  if (now.failed()) return now.says();
  the().device.start_if_needed();
  *stream = new CUstream_st{std::make_shared<stream_state>()};
  (*stream)->state->device = current_device;
  (*stream)->state->blocking = (flags & cudaStreamNonBlocking) == 0;
  the().streams.insert(*stream);
  the().device.streams.push_back((*stream)->state);
  return now.says();
}

// For memory that is not pinned, a real runtime waits for the stream and then copies.
cudaError_t copy_pageable(call& now, const work& what, CUstream_st* stream) {
  if (!the().pageable_expected) now.complain("host memory that is not pinned");
  const auto on = now.state_of(stream);
  if (!on || !the().device.drain(now.lock, *on)) return now.says(the().device.broken);
  const void* const address = what.to_host ? what.from : what.to;
  std::byte* const there = the().device.memory.behind(address, what.bytes, current_device);
  std::memcpy(what.to_host ? what.to : there, what.to_host ? there : what.from, what.bytes);
  return now.says();
}

// The other device that owns the memory, or -1.
int other_device_of(const void* memory, std::size_t bytes) {
  for (int device = 0; device < the().device_count; ++device) {
    if (device != current_device && the().device.memory.is_own(memory, bytes, device))
      return device;
  }
  return -1;
}

cudaError_t copy_across(call& now, work&& what, CUstream_st* stream) {
  if (the().reaches.count({current_device, what.from_device}) == 0) {
    now.complain("memory of a device that this one was not let read");
    return now.says(cudaErrorInvalidValue);
  }
  the().moved.across += what.bytes;
  now.push(stream, std::move(what));
  return now.says();
}

// A real device would report an illegal address later.
template <class Piece>
bool is_in_memory(const call& now, const Piece& piece) {
  const device_memory& memory = the().device.memory;
  const std::byte* const to = static_cast<const std::byte*>(piece.to) + target_begin(piece);
  if (!memory.behind(piece.from, source_bytes(piece), current_device)) {
    now.complain("the source is no memory of this device, and not pinned memory by its address");
  } else if (!memory.is_own(to, target_bytes(piece), current_device)) {
    now.complain("the target is not memory of this device");
  } else {
    return true;
  }
  return false;
}

bool may_run(const call& now, const cuda::scatter_piece& piece) {
  if (piece.elements == 0 || source_bytes(piece) > cuda::scatter_piece::bytes_max) {
    now.complain("a piece of no elements, or of too many");
  } else if (reinterpret_cast<std::uintptr_t>(piece.to) % element_bytes_written(piece) != 0) {
    now.complain("the target is not aligned");
  } else {
    return is_in_memory(now, piece);
  }
  return false;
}

bool may_run(const call& now, const cuda::box_piece& piece) {
  std::uint64_t elements = 1;
  for (unsigned d = 0; d < piece.rank; ++d) elements *= piece.dimensions[d].count;
  if (piece.rank > cuda::box_piece::dimensions_max || elements != piece.elements || elements == 0 ||
      elements > cuda::box_piece::elements_max) {
    now.complain("a box of no elements, of too many, or of another number than it says");
    return false;
  }
  return is_in_memory(now, piece);
}

bool may_run(const call& now, const cuda::change_piece& piece) {
  const bool is_full = piece.sparse != 0 || piece.values == piece.elements;
  if (piece.elements == 0 || piece.values == 0 || piece.values > piece.elements || !is_full) {
    now.complain("a change of no elements, or of another number than it says");
  } else if (reinterpret_cast<std::uintptr_t>(piece.from) % sizeof(std::uint32_t) != 0) {
    now.complain("the values of a change are not aligned");
  } else {
    return is_in_memory(now, piece);
  }
  return false;
}

bool may_run(const call& now, const cuda::sum_piece& piece) {
  if (piece.bytes == 0) {
    now.complain("a sum of no bytes");
    return false;
  }
  return is_in_memory(now, piece);
}

bool may_run(const call& now, const kernel_launch::any_table& any) {
  return std::visit(
      [&](const auto& table) {
        return std::all_of(table.pieces, table.pieces + table.count,
                           [&](const auto& piece) { return may_run(now, piece); });
      },
      any);
}

bool is_filled(const kernel_launch::any_table& any) {
  return std::visit(
      [](const auto& table) { return table.count > 0 && table.count <= table.pieces_max; }, any);
}

}  // namespace

}  // namespace ringload::testing::fake_cudart

using namespace ringload::testing::fake_cudart;

extern "C" {

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned int flags) {
  call now("cudaStreamCreateWithFlags");
  return make_stream(now, stream, flags);
}

cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned int flags, int) {
  call now("cudaStreamCreateWithPriority");
  return make_stream(now, stream, flags);
}

// Its tasks are carried out nevertheless. Another device may be current.
cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  call now("cudaStreamDestroy");
  if (the().streams.count(stream) == 0) {
    now.complain("no such stream");
    return now.says(cudaErrorInvalidResourceHandle);
  }
  now.wait_for_device();
  the().streams.erase(stream);
  delete stream;
  return now.says();
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  call now("cudaStreamSynchronize");
  // A stream can be synchronized while another device is current.
  if (now.failed() || !now.is_known(stream)) return now.says(cudaErrorInvalidResourceHandle);
  const auto state = now.state_of(stream);
  if (!state) return now.says(cudaErrorStreamCaptureImplicit);
  if (!the().device.drain(now.lock, *state)) return now.says(the().device.broken);
  return now.says();
}

cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned int) {
  call now("cudaStreamWaitEvent");
  if (now.failed() || !now.may_use(stream)) return now.says(cudaErrorInvalidResourceHandle);
  work w;
  w.await = event->state;
  w.times = event->state->recorded;
  now.push(stream, std::move(w));
  return now.says();
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned int) {
  const call now("cudaEventCreateWithFlags");
  if (now.failed()) return now.says();
  *event = new CUevent_st{std::make_shared<event_state>()};
  (*event)->state->device = current_device;
  the().events.insert(*event);
  return now.says();
}

cudaError_t cudaEventDestroy(cudaEvent_t event) {
  const call now("cudaEventDestroy");
  if (the().events.erase(event) == 0) {
    now.complain("no such event");
    return now.says(cudaErrorInvalidResourceHandle);
  }
  delete event;
  return now.says();
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  call now("cudaEventRecord");
  if (now.failed() || !now.may_use(stream)) return now.says(cudaErrorInvalidResourceHandle);
  if (event->state->device != current_device) now.complain("another device's event");
  work w;
  w.reach = event->state;
  w.times = ++event->state->recorded;
  now.push(stream, std::move(w));
  return now.says();
}

cudaError_t cudaEventQuery(cudaEvent_t event) {
  const call now("cudaEventQuery");
  const event_state& e = *event->state;
  return now.says(e.reached < e.recorded ? cudaErrorNotReady : cudaSuccess);
}

cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  call now("cudaEventSynchronize");
  if (now.failed()) return now.says();
  const auto state = event->state;
  device_side& device = the().device;
  device.changed.wait(now.lock, [&, until = state->recorded] {
    return state->reached >= until || device.broken != cudaSuccess;
  });
  return now.says(device.broken);
}

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode mode) {
  const call now("cudaStreamBeginCapture");
  if (now.failed() || !now.may_use(stream)) return now.says(cudaErrorInvalidResourceHandle);
  the().captures.push_back({stream, mode, std::this_thread::get_id()});
  return now.says();
}

cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph) {
  const call now("cudaStreamEndCapture");
  auto& all = the().captures;
  const auto found = std::find_if(all.begin(), all.end(),
                                  [&](const capture& each) { return each.stream == stream; });
  if (found == all.end()) return now.says(cudaErrorInvalidValue);
  const bool invalidated = found->invalidated;
  all.erase(found);
  *graph = invalidated ? nullptr : new CUgraph_st;
  return now.says(invalidated ? cudaErrorStreamCaptureInvalidated : cudaSuccess);
}

cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  const call now("cudaGraphDestroy");
  delete graph;
  return now.says();
}

cudaError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t call_this, void* with) {
  call now("cudaLaunchHostFunc");
  if (now.failed() || !now.may_use(stream)) return now.says(cudaErrorInvalidResourceHandle);
  work w;
  w.call = call_this;
  w.with = with;
  now.push(stream, std::move(w));
  return now.says();
}

cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes, enum cudaMemcpyKind kind,
                            cudaStream_t stream) {
  call now("cudaMemcpyAsync");
  if (now.failed()) return now.says();
  work w;
  w.to = to;
  w.from = from;
  w.bytes = bytes;
  w.to_host = kind == cudaMemcpyDeviceToHost;
  // The source may be the device address of pinned memory.
  const device_memory& memory = the().device.memory;
  const bool is_known = w.to_host ? memory.behind(from, bytes, current_device) != nullptr
                                  : memory.is_own(to, bytes, current_device);
  if (!now.may_use(stream) || bytes == 0 || !is_known) {
    now.complain("not between the host and memory of this device");
    return now.says(cudaErrorInvalidValue);
  }
  if (!w.to_host && the().device.memory.is_read_only(to)) {
    now.complain("the target is mapped for reading");
    return now.says(cudaErrorInvalidValue);
  }
  if (kind == cudaMemcpyDeviceToDevice) {
    if (!the().device.memory.is_own(from, bytes, current_device)) {
      now.complain("the source is not memory of this device");
      return now.says(cudaErrorInvalidValue);
    }
    w.within_device = true;
    now.push(stream, std::move(w));
    return now.says();
  }
  if (kind == cudaMemcpyDefault) w.from_device = other_device_of(from, bytes);
  if (w.from_device >= 0) return copy_across(now, std::move(w), stream);
  (w.to_host ? the().moved.down : the().moved.up) += bytes;
  if (!the().device.memory.is_pinned(w.to_host ? to : from, bytes, current_device)) {
    return copy_pageable(now, w, stream);
  }
  now.push(stream, std::move(w));
  return now.says();
}

cudaError_t cudaMemcpy2DAsync(void* to, size_t to_stride, const void* from, size_t from_stride,
                              size_t bytes, size_t rows, enum cudaMemcpyKind kind,
                              cudaStream_t stream) {
  call now("cudaMemcpy2DAsync");
  if (now.failed()) return now.says();
  constexpr std::size_t stride_max = 0x7fffffff;
  if (bytes == 0 || rows == 0 || bytes > std::min(to_stride, from_stride) ||
      std::max(to_stride, from_stride) > stride_max || kind != cudaMemcpyDeviceToDevice) {
    now.complain("no bytes, a wrong stride, or memory of the host");
    return now.says(cudaErrorInvalidValue);
  }
  work w;
  w.to = to;
  w.from = from;
  w.bytes = bytes;
  w.within_device = true;
  w.rows = rows;
  w.from_stride = from_stride;
  w.to_stride = to_stride;
  const device_memory& memory = the().device.memory;
  if (!now.may_use(stream) || !memory.is_own(to, w.to_bytes(), current_device) ||
      !memory.is_own(from, w.from_bytes(), current_device)) {
    now.complain("not within the memory of this device");
    return now.says(cudaErrorInvalidValue);
  }
  now.push(stream, std::move(w));
  return now.says();
}

cudaError_t cudaMemsetAsync(void* to, int value, size_t bytes, cudaStream_t stream) {
  call now("cudaMemsetAsync");
  if (now.failed()) return now.says();
  if (!now.may_use(stream) || bytes == 0 || value != 0 ||
      !the().device.memory.is_own(to, bytes, current_device)) {
    now.complain("no memory of this device, or another value than 0");
    return now.says(cudaErrorInvalidValue);
  }
  work w;
  w.to = to;
  w.bytes = bytes;
  w.clears = true;
  now.push(stream, std::move(w));
  return now.says();
}

cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* attributes, const void* kernel) {
  const call now("cudaFuncGetAttributes");
  if (now.failed()) return now.says();
  the().loaded_kernels.insert({current_device, kernel});
  attributes->numRegs = 32;
  return now.says();
}

cudaError_t cudaLaunchKernel(const void* kernel, dim3 blocks, dim3 threads, void** arguments,
                             size_t, cudaStream_t stream) {
  call now("cudaLaunchKernel");
  if (now.failed()) return now.says();
  if (!now.may_use(stream)) return now.says(cudaErrorInvalidResourceHandle);
  if (the().loaded_kernels.count({current_device, kernel}) == 0) {
    now.complain("the launch loads the kernel, and waits until the device is idle");
  }
  const kernel_launch what = {blocks.x, blocks.y, threads.x, table_of(kernel, arguments[0])};
  if (!is_filled(what.table)) {
    now.complain("a table of no pieces, or of too many");
    return now.says(cudaErrorInvalidValue);
  }
  if (!may_run(now, what.table)) return now.says(cudaErrorIllegalAddress);
  work w;
  w.kernel = std::make_shared<const kernel_launch>(what);
  now.push(stream, std::move(w));
  return now.says();
}
}
