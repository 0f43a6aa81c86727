// SPDX-License-Identifier: Apache-2.0
#pragma once

// GPU memory as the place where tensors go. A library of its own, `ringload::cuda`: it brings the
// CUDA runtime with it, and asks for the driver only when a loader is made, so a program that links
// it starts on a machine without one.
//
// A tensor is given out only after its bytes have reached the device's memory, converted if that
// was asked for. So there is nothing to wait for, on the host or on a stream, and no function that
// makes a stream wait: work that is put on any stream of that device from then on sees the bytes.
//
// What is converted, and small tensors, go through two buffers on the device, each as large as a
// slot at most, from which a kernel takes every piece to its place. Where the device has no memory
// left for them, the kernel reads the pinned slots.
//
// Who lets go of the last tensor of a load says thereby that no work on the device uses it any
// more, or has said with release_after() which work still does. The memory goes back in a thread of
// the library: cudaFree may wait for the device, and is no promise to.

#include <boost/system/error_code.hpp>
#include <cstddef>
#include <cstdint>
#include <ringload/device.hpp>
#include <ringload/export.hpp>
#include <ringload/tensor.hpp>
#include <span>
#include <string>

namespace ringload::inline v0 {

/// A CUDA device, by the runtime's own number for it. Tensors begin at multiples of 256 bytes, and
/// all of a load lie in one allocation, unless `load_options::allocation` says otherwise. Nothing
/// is checked here: making a loader for a device that is not there throws
/// `errc::device_unavailable`, and its text says what is missing.
RINGLOAD_EXPORT device cuda_device(int index = 0) noexcept;

/// How many CUDA devices there are. Where it is 0, `why_none` says why: "driver not found".
RINGLOAD_EXPORT int cuda_device_count(std::string* why_none = nullptr);

/// The category of errors that CUDA reports: the values are those of cudaError_t.
RINGLOAD_EXPORT const boost::system::error_category& cuda_category() noexcept;

/// Copies bytes of a tensor, from the byte `from` on, into memory of the host, and returns when
/// they are there. The tensor lies on a CUDA device and has them all. It waits for no stream but
/// its own, so work of the program that writes the tensor must have ended. For checks and for small
/// tensors: each thread that calls it at the same time pins 2 MiB, for as long as there are tensors
/// of that loader. Any thread. Throws `ringload::error`.
RINGLOAD_EXPORT void copy_to_host(const tensor& source, std::uint64_t from,
                                  std::span<std::byte> into);

/// Says that no work on the device uses a tensor of the allocation that `used` lies in, nor will:
/// of the load, unless `load_options::allocation` says otherwise. Only memory for which this or
/// release_after() was called is kept for other loads
/// (`loader_options::cached_bytes`). Any thread.
RINGLOAD_EXPORT void release(const tensor& used) noexcept;

/// Says that the work that is on `stream` (a cudaStream_t) now is the last there that uses a tensor
/// of the allocation that `used` lies in. The memory is neither given back nor given to another
/// load before that work has ended. To be called once for each stream that uses them, while a
/// tensor is still held, and not while the stream is being captured. Any thread; for the per-thread
/// default stream, one whose current device is the tensor's. Throws `ringload::error`.
RINGLOAD_EXPORT void release_after(const tensor& used, void* stream);

}  // namespace ringload::inline v0
