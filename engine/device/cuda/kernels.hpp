// SPDX-License-Identifier: Apache-2.0
#pragma once

// The kernel of ringload_cuda, behind functions that any compiler can call: it moves many pieces of
// memory to where each belongs, and converts those that are to be converted.
//
// The pieces lie in a staging buffer on the device, where one copy over the bus has put them. So
// thousands of small tensors cost a few launches instead of a call of the driver each, and what is
// converted crosses the bus at the copy engine's speed. Kernels that read host memory themselves do
// not reach that: 35 of 55 GB/s on a card whose copies fill the link. They are able to, and do it
// where the device has no memory left for a staging buffer.

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

#include "core/float_bits.hpp"

namespace ringload {
inline namespace v0 {
namespace cuda {

struct scatter_piece {
  // A block of threads works on a piece, so a large copy is cut into pieces of at most this size.
  static constexpr std::uint32_t bytes_max = 32 * 1024;

  const void* from;        // As the device addresses it. Of any alignment.
  void* to;                // Aligned for the elements that are written.
  std::uint32_t elements;  // Bytes, where nothing is converted. Not 0.
  conversion as;
};
static_assert(sizeof(scatter_piece) == 24);

// What one launch works on. It travels among the kernel's arguments, of which there may be 4 KiB.
struct scatter_table {
  static constexpr std::uint32_t pieces_max = 160;

  scatter_piece pieces[pieces_max];
  std::uint32_t count;
};
static_assert(sizeof(scatter_table) <= 4096);

// Puts the kernel on the stream. At least one piece; no two of them write the same byte.
cudaError_t launch_scatter(const scatter_table& table, cudaStream_t on);

// Loads the kernel into the current device. Left to the first launch, that would hold the context's
// lock until the device is idle.
cudaError_t load_kernels();

}  // namespace cuda
}  // namespace v0
}  // namespace ringload
