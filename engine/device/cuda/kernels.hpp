// SPDX-License-Identifier: Apache-2.0
#pragma once

// The kernels of ringload_cuda behind functions that any compiler can call. They move many pieces
// of memory to their destinations and convert them if needed. One kernel moves contiguous pieces;
// the other moves strided boxes and dequantises blocks.
//
// The pieces are in a staging buffer on the device, which one bus copy has filled. Thousands of
// small tensors then cost a few launches instead of one driver call each, and converted bytes cross
// the bus at the speed of the copy engine. Kernels that read host memory directly are slower: 35 of
// 55 GB/s on a card whose copies fill the link. They do so only if the device has no memory left
// for a staging buffer.

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

#include "base/numeric/strided_map.hpp"

namespace ringload {
inline namespace v0 {
namespace cuda {

struct scatter_piece {
  // A thread block works on one piece, so large copies are cut into pieces of at most this size.
  static constexpr std::uint32_t bytes_max = 32 * 1024;

  const void* from;        // Device address of any alignment.
  void* to;                // Aligned for the written elements.
  std::uint32_t elements;  // Bytes if nothing is converted. Not 0.
  conversion cast;
};
static_assert(sizeof(scatter_piece) == 24);

// The work of one launch. It is a kernel argument, which may have at most 4 KiB.
struct scatter_table {
  static constexpr std::uint32_t pieces_max = 160;

  scatter_piece pieces[pieces_max];
  std::uint32_t count;
};
static_assert(sizeof(scatter_table) <= 4096);

// A box of elements on both sides: words that are copied, with or without a byte swap; numbers that
// are converted, with or without a swap before; or blocks that are dequantised.
struct box_piece {
  // A map has at most 8 dimensions; elements of two words need one more.
  static constexpr unsigned dimensions_max = strided_map::dimensions_max + 1;
  static constexpr std::uint32_t elements_max = std::uint32_t{1} << 30;

  struct dimension {
    std::uint32_t count;  // At least 2.
    std::uint32_t from;   // Strides in bytes.
    std::int64_t to;
  };

  const void* from;  // Device addresses of the first element. Both may have any alignment.
  void* to;
  std::uint32_t elements;      // The product of all counts.
  std::uint8_t rank;           // Number of dimensions.
  std::uint8_t element_bytes;  // Bytes of a word: 1, 2, 4 or 8. Ignored if elements are converted.
  std::uint8_t swap;           // 1: the bytes of each element are reversed. Not for blocks.
  conversion cast;
  dimension dimensions[dimensions_max];  // The last dimension varies fastest.
};

struct box_table {
  static constexpr std::uint32_t pieces_max = 23;

  box_piece pieces[pieces_max];
  std::uint32_t count;
};
static_assert(sizeof(box_table) <= 4096);

// Launches the kernel on the stream. `table` must have at least one piece, and no two pieces may
// write the same byte.
cudaError_t launch_scatter(const scatter_table& table, cudaStream_t cuda_stream);
cudaError_t launch_boxes(const box_table& table, cudaStream_t cuda_stream);

// Loads the kernels into the current device. Otherwise the first launch would do it and hold the
// context's lock until the device is idle.
cudaError_t load_kernels();

}  // namespace cuda
}  // namespace v0
}  // namespace ringload
