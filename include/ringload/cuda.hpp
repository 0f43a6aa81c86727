// SPDX-License-Identifier: Apache-2.0
#pragma once

// Functions for tensors in GPU memory. The functions belong to the separate library
// `ringload::cuda`. The library contains the CUDA runtime. The library uses the CUDA driver only
// after a loader for a GPU is created. Therefore a program that links this library also starts on a
// machine without a driver.
//
// A load returns a tensor only after all its bytes are in device memory and a requested conversion
// is complete. Therefore no CUDA stream has to wait for the load. Work that the program submits
// afterwards, to any stream of the device, reads the loaded bytes.
//
// The bytes of small tensors and converted tensors are first copied to one of two buffers on the
// device. Each buffer is at most as large as a slot (a pinned buffer of the loader). A kernel then
// copies or converts the bytes from the buffer to the tensors. If the device has no memory for the
// buffers, the kernel reads the slots directly.
//
// When a loader is destroyed, threads of the library unpin its memory and destroy its CUDA streams.
// The destructor does not make these calls itself, because the calls may wait for work of the
// program on the device. However, the destructor waits for the copies of the loader: see
// `basic_loader`. Therefore do not destroy a loader in a thread that runs an event loop.
//
// Before the last tensor of a load is destroyed, all device work that uses the memory of the load
// must have completed. Only work that was declared with release_after() may still run. A thread of
// the library frees the memory with cudaFree. CUDA does not guarantee that cudaFree waits for work
// on the device.

#include <boost/system/error_code.hpp>
#include <cstddef>
#include <cstdint>
#include <ringload/device.hpp>
#include <ringload/export.hpp>
#include <ringload/model.hpp>
#include <ringload/tensor.hpp>
#include <span>
#include <string>

namespace ringload::inline v0 {

/// Returns the CUDA device that has the index `index` in the CUDA runtime. On a CUDA device,
/// tensors begin at multiples of 256 bytes. All tensors of a load are in one allocation, unless
/// `load_options::allocation` requires several allocations. The function does not check whether the
/// device exists. If the device does not exist, the constructor of the loader throws
/// `errc::device_unavailable`. The error text contains the reason.
RINGLOAD_EXPORT device cuda_device(int index = 0) noexcept;

/// Returns the CUDA device that has the index `index`. Models that are loaded for the returned
/// device are in memory that a `keeper` can share with other processes (`ringload/keeper.hpp`). The
/// size of each allocation is a multiple of the device's granularity, which is usually 2 MiB. Freed
/// memory is not kept for later loads. If the driver cannot share memory, loads fail with the
/// driver's error. operator== treats the returned device and `cuda_device(index)` as equal.
RINGLOAD_EXPORT device shared_cuda_device(int index = 0) noexcept;

/// Returns the number of CUDA devices. If the number is 0, `why_none` receives the reason, such as
/// "driver not found".
RINGLOAD_EXPORT int cuda_device_count(std::string* why_none = nullptr);

/// Returns the category of CUDA errors. The value of an error code in this category is a
/// cudaError_t.
RINGLOAD_EXPORT const boost::system::error_category& cuda_category() noexcept;

/// Copies `bytes.size()` bytes of the tensor `source` to the host memory `bytes`. `offset` is the
/// offset of the first byte in the tensor. The tensor must be completely loaded and on a CUDA
/// device. The function returns when the copy is complete. The function waits only for the CUDA
/// stream of the copy. Therefore all work of the program that writes to the tensor must have
/// completed before the call.
///
/// Use this function for checks and for small tensors. Each concurrent call pins 2 MiB of host
/// memory, which stays pinned until the loader and all its tensors are destroyed. Thread-safe.
/// Throws `ringload::error`.
RINGLOAD_EXPORT void copy_to_host(const tensor& source, std::uint64_t offset,
                                  std::span<std::byte> bytes);

/// Registers the host memory of a model with the CUDA driver, so that GPUs copy from this memory
/// without the CPU. Use this function for a model that is copied to a GPU several times.
/// `loader::copy_async` copies from the registered memory. A call of `attach()` that copies a
/// published model to a GPU also uses the registered memory, if this process has registered the
/// memory of this model. The call of pin() takes 30 to 100 ms for each GiB. A second call for the
/// same memory has no effect. `device` is the index of the GPU whose driver context is used.
///
/// Returns the number of registered bytes of the model, including bytes that were already
/// registered. Allocations of less than 64 KiB and mapped files are not registered. Tensors in
/// unregistered memory can still be copied.
///
/// The memory stays registered until the memory is unmapped. With `loader_options::cached_bytes`,
/// the memory also stays registered in the free list. A keeper cannot seal registered memory
/// against writes. Therefore publish a model in memory of `shared_host()` before this call. The
/// memory of an attached model is already sealed. Thread-safe. Throws `ringload::error`.
RINGLOAD_EXPORT std::uint64_t pin(const model& host_model, int device = 0);

/// Declares that no present or later work on the device uses the allocation of the tensor `used`.
/// The declaration covers all tensors in this allocation. By default, all tensors of a load share
/// one allocation: see `load_options::allocation`.
///
/// Memory is kept for later loads (`loader_options::cached_bytes`) only after a call of this
/// function or of release_after(). Thread-safe.
RINGLOAD_EXPORT void release(const tensor& used) noexcept;

/// Declares that all work on `stream` that uses the allocation of the tensor `used` has been
/// submitted. `stream` is a cudaStream_t. The memory is freed or reused only after this work has
/// completed.
///
/// Call this function once for each stream that uses the tensors, while the program still holds a
/// tensor, and not during stream capture. For the per-thread default stream, the current device of
/// the calling thread must be the tensor's device. Thread-safe. Throws `ringload::error`. After a
/// failed call, the work on `stream` is not declared, and the memory is not kept for later loads
/// unless release() is called.
RINGLOAD_EXPORT void release_after(const tensor& used, void* stream);

}  // namespace ringload::inline v0
