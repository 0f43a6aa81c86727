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
// Conversions are kernels that read the pinned buffers themselves, so they need no memory of the
// device beside the tensors'. They run on streams of their own, beside the copies of other tensors.

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
/// all of a load lie in one allocation. Nothing is checked here: making a loader for a device that
/// is not there throws `errc::device_unavailable`, and its text says what is missing.
RINGLOAD_EXPORT device cuda_device(int index = 0) noexcept;

/// How many CUDA devices there are. Where it is 0, `why_none` says why: "driver not found".
RINGLOAD_EXPORT int cuda_device_count(std::string* why_none = nullptr);

/// The category of errors that CUDA reports: the values are those of cudaError_t.
RINGLOAD_EXPORT const boost::system::error_category& cuda_category() noexcept;

/// Copies bytes of a tensor, from the byte `from` on, into memory of the host, and returns when
/// they are there. The tensor lies on a CUDA device and has them all. For checks and for small
/// tensors: into pageable memory this is slow. Any thread. Throws `ringload::error`.
RINGLOAD_EXPORT void copy_to_host(const tensor& source, std::uint64_t from,
                                  std::span<std::byte> into);

}  // namespace ringload::inline v0
