// SPDX-License-Identifier: Apache-2.0

// The functions themselves. What they do is told in fake_cudart.hpp.

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <vector>

#include "support/fake_cudart/fake_cudart.hpp"
#include "support/fake_cudart/runtime.hpp"

namespace ringload::testing::fake_cudart {

namespace {

bool may_copy(const call& in, void* to, const void* from, std::size_t bytes) {
  runtime& r = the();
  if (bytes == 0 || !r.device.behind(static_cast<std::byte*>(to), bytes, current_device)) {
    in.complain("the target is not memory of this device");
    return false;
  }
  if (!r.device.is_pinned(static_cast<const std::byte*>(from), bytes)) {
    in.complain("the source is not pinned");
    return false;
  }
  return true;
}

work copy_of(void* to, const void* from, std::size_t bytes) {
  work w;
  w.to = static_cast<std::byte*>(to);
  w.from = static_cast<const std::byte*>(from);
  w.bytes = bytes;
  return w;
}

#if CUDART_VERSION >= 12080
cudaError_t copy_batch(void* const* to, const void* const* from, const std::size_t* bytes,
                       std::size_t count, const cudaMemcpyAttributes* how, std::size_t how_count,
                       cudaStream_t stream) {
  const call now("cudaMemcpyBatchAsync");
  if (now.failed()) return now.says();
  if (!now.may_use(stream) || count == 0 || how_count != 1 ||
      how->srcAccessOrder != cudaMemcpySrcAccessOrderStream) {
    return now.says(cudaErrorInvalidValue);
  }
  std::vector<work> all;
  for (std::size_t i = 0; i < count; ++i) {
    if (!may_copy(now, to[i], from[i], bytes[i])) return now.says(cudaErrorInvalidValue);
    all.push_back(copy_of(to[i], from[i], bytes[i]));
  }
  // Within a batch there is no order.
  std::reverse(all.begin(), all.end());
  for (work& w : all) stream->state->held.push_back(std::move(w));
  return now.says();
}
#endif

}  // namespace

}  // namespace ringload::testing::fake_cudart

using namespace ringload::testing::fake_cudart;

extern "C" {

const char* cudaGetErrorName(cudaError_t error) {
  switch (error) {
    case cudaSuccess: return "cudaSuccess";
    case cudaErrorInvalidValue: return "cudaErrorInvalidValue";
    case cudaErrorMemoryAllocation: return "cudaErrorMemoryAllocation";
    case cudaErrorECCUncorrectable: return "cudaErrorECCUncorrectable";
    case cudaErrorNotReady: return "cudaErrorNotReady";
    case cudaErrorIllegalAddress: return "cudaErrorIllegalAddress";
    case cudaErrorNotSupported: return "cudaErrorNotSupported";
    default: return "cudaErrorOther";
  }
}

const char* cudaGetErrorString(cudaError_t) { return "what CUDA says about it"; }

cudaError_t cudaGetLastError() {
  const cudaError_t was = last_error;
  last_error = cudaSuccess;
  return was;
}

cudaError_t cudaDriverGetVersion(int* version) {
  const call now("cudaDriverGetVersion");
  *version = the().driver_version;
  return now.says();
}

cudaError_t cudaGetDeviceCount(int* count) {
  const call now("cudaGetDeviceCount");
  if (now.failed() || the().count_says != cudaSuccess) return now.says(the().count_says);
  *count = devices;
  return now.says();
}

cudaError_t cudaSetDevice(int device) {
  const call now("cudaSetDevice");
  if (now.failed()) return now.says();
  if (device < 0 || device >= devices) return now.says(cudaErrorInvalidDevice);
  current_device = device;
  return now.says();
}

cudaError_t cudaGetDevice(int* device) {
  const call now("cudaGetDevice");
  if (now.failed()) return now.says();
  *device = current_device;
  return now.says();
}

cudaError_t cudaDeviceSynchronize() {
  call now("cudaDeviceSynchronize");
  if (now.failed()) return now.says();
  const auto streams = the().device.streams;
  for (const auto& each : streams) {
    if (each->device != current_device) continue;
    if (!the().device.drain(now.lock, *each)) return now.says(the().device.broken);
  }
  return now.says();
}

cudaError_t cudaThreadExchangeStreamCaptureMode(cudaStreamCaptureMode* mode) {
  const call now("cudaThreadExchangeStreamCaptureMode");
  std::swap(*mode, capture_mode);
  return now.says();
}

cudaError_t cudaMalloc(void** to, size_t bytes) {
  const call now("cudaMalloc");
  if (now.failed()) return now.says();
  device_side& d = the().device;
  if (d.allocated(current_device) + bytes > memory_bytes) {
    return now.says(cudaErrorMemoryAllocation);
  }
  *to = d.allocate(bytes, current_device);
  return now.says();
}

cudaError_t cudaFree(void* address) {
  const call now("cudaFree");
  if (!the().device.give_back(static_cast<std::byte*>(address))) now.complain("no such memory");
  return now.says();
}

cudaError_t cudaMemGetInfo(size_t* free_bytes, size_t* total_bytes) {
  const call now("cudaMemGetInfo");
  if (now.failed()) return now.says();
  *total_bytes = memory_bytes;
  *free_bytes = memory_bytes - the().device.allocated(current_device);
  return now.says();
}

cudaError_t cudaHostRegister(void* address, size_t bytes, unsigned int) {
  const call now("cudaHostRegister");
  if (now.failed()) return now.says();
  if (the().device.is_pinned(static_cast<std::byte*>(address), 1)) {
    return now.says(cudaErrorHostMemoryAlreadyRegistered);
  }
  the().device.pinned[static_cast<std::byte*>(address)] = bytes;
  return now.says();
}

cudaError_t cudaHostUnregister(void* address) {
  const call now("cudaHostUnregister");
  if (the().device.pinned.erase(static_cast<std::byte*>(address)) == 0) {
    now.complain("not pinned");
  }
  return now.says();
}

cudaError_t cudaHostGetDevicePointer(void** there, void* address, unsigned int) {
  const call now("cudaHostGetDevicePointer");
  if (now.failed()) return now.says();
  if (!the().device.is_pinned(static_cast<std::byte*>(address), 1)) {
    return now.says(cudaErrorInvalidValue);
  }
  *there = reinterpret_cast<void*>(reinterpret_cast<std::uintptr_t>(address) + mapped_at);
  return now.says();
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned int) {
  const call now("cudaStreamCreateWithFlags");
  if (now.failed()) return now.says();
  the().device.start_if_needed();
  *stream = new CUstream_st{std::make_shared<stream_state>()};
  (*stream)->state->device = current_device;
  the().streams.insert(*stream);
  the().device.streams.push_back((*stream)->state);
  return now.says();
}

// What it holds is carried out nevertheless.
cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  const call now("cudaStreamDestroy");
  if (!now.may_use(stream)) return now.says(cudaErrorInvalidResourceHandle);
  the().streams.erase(stream);
  delete stream;
  return now.says();
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  call now("cudaStreamSynchronize");
  if (now.failed() || !now.may_use(stream)) return now.says(cudaErrorInvalidResourceHandle);
  const auto state = stream->state;
  if (!the().device.drain(now.lock, *state)) return now.says(the().device.broken);
  return now.says();
}

cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned int) {
  const call now("cudaStreamWaitEvent");
  if (now.failed() || !now.may_use(stream)) return now.says(cudaErrorInvalidResourceHandle);
  work w;
  w.await = event->state;
  w.times = event->state->recorded;
  stream->state->held.push_back(std::move(w));
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
  const call now("cudaEventRecord");
  if (now.failed() || !now.may_use(stream)) return now.says(cudaErrorInvalidResourceHandle);
  if (event->state->device != stream->state->device) now.complain("another device's event");
  work w;
  w.reach = event->state;
  w.times = ++event->state->recorded;
  stream->state->held.push_back(std::move(w));
  return now.says();
}

cudaError_t cudaEventQuery(cudaEvent_t event) {
  const call now("cudaEventQuery");
  const event_state& e = *event->state;
  return now.says(e.reached < e.recorded ? cudaErrorNotReady : cudaSuccess);
}

cudaError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t call_this, void* with) {
  const call now("cudaLaunchHostFunc");
  if (now.failed() || !now.may_use(stream)) return now.says(cudaErrorInvalidResourceHandle);
  work w;
  w.call = call_this;
  w.with = with;
  stream->state->held.push_back(std::move(w));
  return now.says();
}

cudaError_t cudaMemcpy(void* to, const void* from, size_t bytes, enum cudaMemcpyKind kind) {
  const call now("cudaMemcpy");
  if (now.failed()) return now.says();
  const std::byte* source =
      the().device.behind(static_cast<const std::byte*>(from), bytes, current_device);
  if (kind != cudaMemcpyDeviceToHost || source == nullptr) {
    now.complain("not from this device to the host");
    return now.says(cudaErrorInvalidValue);
  }
  std::memcpy(to, source, bytes);
  return now.says();
}

cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes, enum cudaMemcpyKind kind,
                            cudaStream_t stream) {
  const call now("cudaMemcpyAsync");
  if (now.failed()) return now.says();
  if (!now.may_use(stream) || kind != cudaMemcpyHostToDevice || !may_copy(now, to, from, bytes)) {
    return now.says(cudaErrorInvalidValue);
  }
  stream->state->held.push_back(copy_of(to, from, bytes));
  return now.says();
}

#if CUDART_VERSION >= 13000
cudaError_t cudaMemcpyBatchAsync(void* const* to, const void* const* from, const size_t* bytes,
                                 size_t count, struct cudaMemcpyAttributes* how, size_t*,
                                 size_t how_count, cudaStream_t stream) {
  return copy_batch(to, from, bytes, count, how, how_count, stream);
}
#elif CUDART_VERSION >= 12080
cudaError_t cudaMemcpyBatchAsync(void** to, void** from, size_t* bytes, size_t count,
                                 struct cudaMemcpyAttributes* how, size_t*, size_t how_count,
                                 size_t*, cudaStream_t stream) {
  return copy_batch(to, from, bytes, count, how, how_count, stream);
}
#endif
}
