// SPDX-License-Identifier: Apache-2.0
#pragma once

// Tensors in GPU memory, in the separate library `ringload::cuda`. The library includes the CUDA
// runtime, and uses the driver only when a loader is created. So a program with the library starts
// on a machine without a driver.
//
// A load returns a tensor only after its bytes, converted if requested, have reached device memory.
// So the host and CUDA streams need not wait: work that is later submitted to any stream of the
// device reads the bytes.
//
// Converted tensors and small tensors go through two buffers on the device, each at most as large
// as a slot. A kernel copies every piece from a buffer to its tensor. If the device has no memory
// for the buffers, the kernel reads the pinned slots.
//
// A program that drops the last tensor of a load guarantees that no work on the device uses the
// tensor, except for work that it declared with release_after(). The memory is freed in a thread of
// the library. cudaFree may wait for the device, but this is not guaranteed.

#include <boost/system/error_code.hpp>
#include <cstddef>
#include <cstdint>
#include <ringload/device.hpp>
#include <ringload/export.hpp>
#include <ringload/tensor.hpp>
#include <span>
#include <string>

namespace ringload::inline v0 {

/// Returns the CUDA device with this number of the runtime. Tensors begin at multiples of 256
/// bytes. All tensors of a load share one allocation, unless `load_options::allocation` is set
/// differently. This function checks nothing. If the device does not exist, the constructor of the
/// loader throws `errc::device_unavailable`, and the text names the missing part.
RINGLOAD_EXPORT device cuda_device(int index = 0) noexcept;

/// Returns the number of CUDA devices. If the number is 0, `why_none` receives the reason: "driver
/// not found".
RINGLOAD_EXPORT int cuda_device_count(std::string* why_none = nullptr);

/// The category of CUDA errors. The values are values of cudaError_t.
RINGLOAD_EXPORT const boost::system::error_category& cuda_category() noexcept;

/// Copies bytes of a tensor, starting with the byte `from`, to host memory, and returns when the
/// copy is complete. The tensor is on a CUDA device and loaded completely. The function waits only
/// for its own stream, so work of the program that writes the tensor must have ended. For checks
/// and small tensors: each concurrent caller pins 2 MiB, for as long as tensors of the loader
/// exist. May be called from any thread. Throws `ringload::error`.
RINGLOAD_EXPORT void copy_to_host(const tensor& source, std::uint64_t from,
                                  std::span<std::byte> into);

/// Declares that no work on the device uses, or will use, a tensor of the allocation of `used`. The
/// allocation is the whole load, unless `load_options::allocation` is set differently. Memory is
/// kept for other loads (`loader_options::cached_bytes`) only after a call of this function or of
/// release_after(). May be called from any thread.
RINGLOAD_EXPORT void release(const tensor& used) noexcept;

/// Declares that the work on `stream` (a cudaStream_t) at this time is the last work of the stream
/// that uses a tensor of the allocation of `used`. The memory is neither freed nor reused before
/// that work has ended. Must be called once for each stream that uses the tensors, while a tensor
/// is still held, and not during stream capture. May be called from any thread. For the per-thread
/// default stream, the calling thread's current device must be the tensor's device. Throws
/// `ringload::error`.
RINGLOAD_EXPORT void release_after(const tensor& used, void* stream);

}  // namespace ringload::inline v0
