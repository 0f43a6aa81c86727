// SPDX-License-Identifier: Apache-2.0
#pragma once

// The kernels of ringload_cuda, behind a function that any compiler can call.
//
// A conversion is a copy that converts: the kernel reads the pinned slot over the bus, each byte
// once, and writes the arena. So nothing is staged on the device, nothing has to be allocated or
// freed, and the slot's event gates its reuse as it does for a copy. A link that carries 55 GB/s is
// full with some tens of KiB on their way, which a few hundred warps that read 16 bytes a thread
// have. The other way, a plain copy into memory of the device and a kernel behind it, costs that
// memory and one more event for each slot, and can be no faster than the same link.

#include <cuda_runtime_api.h>

#include <cstddef>

#include "core/float_bits.hpp"

namespace ringload {
inline namespace v0 {
namespace cuda {

struct conversion_piece {
  const void* from;  // By the address that the device knows it by. Aligned or not.
  void* to;          // Aligned for its elements.
  std::size_t elements;
};

// What one kernel works on. It travels among the kernel's arguments, of which there may be 4 KiB.
struct conversion_batch {
  static constexpr unsigned pieces_max = 64;

  conversion_piece pieces[pieces_max];
  unsigned count;
};

// Puts a kernel on the stream. At least one piece, and none without elements.
cudaError_t launch_conversions(const conversion_batch& batch, conversion how, cudaStream_t on);

}  // namespace cuda
}  // namespace v0
}  // namespace ringload
