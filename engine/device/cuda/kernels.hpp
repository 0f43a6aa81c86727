// SPDX-License-Identifier: Apache-2.0
#pragma once

// Functions that launch the CUDA kernels of ringload. This header needs no CUDA compiler. The
// kernels move many pieces of memory to their destinations, and convert the pieces if needed. One
// kernel moves contiguous pieces. The other kernel moves strided boxes and dequantises blocks.
// delta_kernels.hpp has the kernels for deltas.
//
// If the pieces are in host memory, one copy first transfers many pieces to a staging buffer on the
// device. Therefore thousands of small tensors need a few copies and launches instead of one driver
// call for each tensor. If the device has no memory for a staging buffer, the kernels read host
// memory directly. These reads are slower: 35 GB/s instead of 55 GB/s in a measurement.

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

#include "base/numeric/strided_map.hpp"

namespace ringload {
inline namespace v0 {
namespace cuda {

struct scatter_piece {
  // One thread block handles one piece, so larger copies are split into pieces of this size.
  static constexpr std::uint32_t bytes_max = 32 * 1024;

  const void* from;        // Device address of any alignment.
  void* to;                // Aligned for the written elements.
  std::uint32_t elements;  // Number of bytes if nothing is converted. Not 0.
  conversion cast;
};
static_assert(sizeof(scatter_piece) == 24);

// The pieces of one launch. The table is a kernel argument, which can have at most 4 KiB.
struct scatter_table {
  static constexpr std::uint32_t pieces_max = 160;

  scatter_piece pieces[pieces_max];
  std::uint32_t count;
};
static_assert(sizeof(scatter_table) <= 4096);

// A box of elements with strides in source and destination. An element is a word to copy, a number
// to convert, or a quantised block to dequantise. The kernel may first reverse the bytes of words
// and numbers.
struct box_piece {
  // A strided_map has at most 8 dimensions. An element of two words needs one more dimension.
  static constexpr unsigned dimensions_max = strided_map::dimensions_max + 1;
  static constexpr std::uint32_t elements_max = std::uint32_t{1} << 30;

  struct dimension {
    std::uint32_t count;  // Not 0.
    // The strides `from` and `to` are in bytes.
    std::uint32_t from;
    std::int64_t to;
  };

  // Device addresses of the first element. Both addresses may have any alignment.
  const void* from;
  void* to;
  std::uint32_t elements;      // The product of all counts.
  std::uint8_t rank;           // Number of dimensions.
  std::uint8_t element_bytes;  // Bytes of a word: 1, 2, 4 or 8. Not used if elements are converted.
  std::uint8_t swap;           // 1 if the bytes of each element are reversed. 0 for blocks.
  conversion cast;
  dimension dimensions[dimensions_max];  // The last dimension varies fastest.
};

struct box_table {
  static constexpr std::uint32_t pieces_max = 23;

  box_piece pieces[pieces_max];
  std::uint32_t count;
};
static_assert(sizeof(box_table) <= 4096);

// Each of these functions launches one kernel. `table` must not be empty. No two pieces may write
// the same byte.
cudaError_t launch_scatter(const scatter_table& table, cudaStream_t cuda_stream);
cudaError_t launch_boxes(const box_table& table, cudaStream_t cuda_stream);

// Returns the GPU architectures that the kernels were compiled for: "750,800,900". Later
// architectures run these kernels too.
const char* kernel_architectures();

// Loads the kernels into the current device. Without this call, the first launch loads the kernels,
// and holds a lock of the context until the device is idle.
cudaError_t load_kernels();

}  // namespace cuda
}  // namespace v0
}  // namespace ringload
