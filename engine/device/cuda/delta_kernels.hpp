// SPDX-License-Identifier: Apache-2.0
#pragma once

// Functions that launch the CUDA kernels for deltas. This header needs no CUDA compiler.

#include <cuda_runtime_api.h>

#include <cstdint>

#include "base/numeric/convert_float.hpp"

namespace ringload {
inline namespace v0 {
namespace cuda {

// Tiles of an element_change (see device/element_change.hpp), in memory of the device. `from` is
// the address of three parts without gaps between them:
//   begins     for each tile the index of its first value, then the number of all values, as u32
//   positions  the position of each value within its tile, as u16
//   planes     the byte planes of the values
// If `sparse` is 0, there are only byte planes, with a value for each element.
struct change_piece {
  static constexpr std::uint32_t tile_elements = 1 << 14;

  const void* from;  // A multiple of 4.
  void* to;          // The first element of the first tile. Any alignment.
  std::uint64_t elements;
  std::uint64_t values;
  std::uint8_t width;  // Size of an element in bytes: 1, 2, 4 or 8.
  std::uint8_t sparse;
};

RINGLOAD_ANYWHERE constexpr std::uint64_t tiles_of(std::uint64_t elements) noexcept {
  return (elements + change_piece::tile_elements - 1) / change_piece::tile_elements;
}

// Returns the offset from `from` to the positions, for a sparse piece with this number of tiles.
RINGLOAD_ANYWHERE constexpr std::uint64_t offset_of_positions(std::uint64_t tiles) noexcept {
  return sizeof(std::uint32_t) * (tiles + 1);
}

// Returns the offset of the byte planes.
RINGLOAD_ANYWHERE constexpr std::uint64_t offset_of_planes(std::uint64_t tiles,
                                                           std::uint64_t values) noexcept {
  return offset_of_positions(tiles) + sizeof(std::uint16_t) * values;
}

// Memory of the device whose CRC-32C is computed, chunk by chunk.
struct sum_piece {
  static constexpr std::uint32_t chunk_bytes = 1024;

  const void* from;  // Any alignment.
  void* to;          // Receives the CRC-32C of each chunk as u32.
  std::uint64_t bytes;
};

RINGLOAD_ANYWHERE constexpr std::uint64_t chunks_of(std::uint64_t bytes) noexcept {
  return (bytes + sum_piece::chunk_bytes - 1) / sum_piece::chunk_bytes;
}

// Each of these functions launches one kernel. A piece must not be empty.
cudaError_t launch_change(const change_piece& piece, cudaStream_t cuda_stream);
cudaError_t launch_sum(const sum_piece& piece, cudaStream_t cuda_stream);

// Does the same as load_kernels() for the kernels of this file.
cudaError_t load_delta_kernels();

}  // namespace cuda
}  // namespace v0
}  // namespace ringload
