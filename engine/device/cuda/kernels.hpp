// SPDX-License-Identifier: Apache-2.0
#pragma once

// The kernels of ringload_cuda, behind functions that any compiler can call: they move many pieces
// of memory to where each belongs, and convert those that are to be converted. One moves what lies
// side by side, the other boxes by their strides, and blocks that are dequantised.
//
// The pieces lie in a staging buffer on the device, where one copy over the bus has put them. So
// thousands of small tensors cost a few launches instead of a call of the driver each, and what is
// converted crosses the bus at the copy engine's speed. Kernels that read host memory themselves do
// not reach that: 35 of 55 GB/s on a card whose copies fill the link. They are able to, and do it
// where the device has no memory left for a staging buffer.

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

#include "core/strided_map.hpp"

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

// A box of elements at both ends: words that are copied, with their bytes reversed or as they are;
// numbers that are converted, reversed before or not; or blocks that are dequantised.
struct box_piece {
  // A map has at most 8; one more is for elements of two words.
  static constexpr unsigned dimensions_max = strided_map::dimensions_max + 1;
  static constexpr std::uint32_t elements_max = std::uint32_t{1} << 30;

  struct dimension {
    std::uint32_t count;  // At least 2.
    std::uint32_t from;   // Strides in bytes.
    std::int64_t to;
  };

  const void* from;  // As the device addresses it, of the first element. Of any alignment, both.
  void* to;
  std::uint32_t elements;      // The product of all counts.
  std::uint8_t rank;           // Of the dimensions.
  std::uint8_t element_bytes;  // Of a word: 1, 2, 4 or 8. Not looked at where they are converted.
  std::uint8_t swap;           // 1: the bytes of each element are reversed. Not of blocks.
  conversion as;
  dimension dimensions[dimensions_max];  // The last one varies fastest.
};

struct box_table {
  static constexpr std::uint32_t pieces_max = 23;

  box_piece pieces[pieces_max];
  std::uint32_t count;
};
static_assert(sizeof(box_table) <= 4096);

// Puts the kernel on the stream. At least one piece; no two of them write the same byte.
cudaError_t launch_scatter(const scatter_table& table, cudaStream_t on);
cudaError_t launch_boxes(const box_table& table, cudaStream_t on);

// Loads the kernels into the current device. Left to the first launch, that would hold the
// context's lock until the device is idle.
cudaError_t load_kernels();

}  // namespace cuda
}  // namespace v0
}  // namespace ringload
