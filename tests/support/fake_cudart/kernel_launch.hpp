// SPDX-License-Identifier: Apache-2.0
#pragma once

// A kernel launch on a stream of the stand-in: the kernel, its threads and its arguments.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <variant>
#include <vector>

#include "device/cuda/delta_kernels.hpp"
#include "device/cuda/kernels.hpp"

namespace ringload::testing::fake_cudart {

// A kernel whose argument is one piece looks like a table with one piece.
template <class Piece>
struct table_of_one {
  static constexpr std::uint32_t pieces_max = 1;
  Piece pieces[1];
  std::uint32_t count = 1;
};

struct kernel_launch {
  using any_table = std::variant<cuda::scatter_table, cuda::box_table,
                                 table_of_one<cuda::change_piece>, table_of_one<cuda::sum_piece>>;

  unsigned blocks;
  unsigned rows;  // Of blocks.
  unsigned threads_per_block;
  any_table table;  // With device addresses.

  // The same launch with host addresses.
  void run(const any_table& on_processor) const;
};

// The argument of the kernel. Its type identifies the kernel.
kernel_launch::any_table table_of(const void* kernel, const void* argument);

inline std::size_t source_bytes(const cuda::scatter_piece& piece) {
  return std::size_t{piece.elements} * (piece.cast.needed() ? piece.cast.from_bytes() : 1);
}
inline std::size_t element_bytes_written(const cuda::scatter_piece& piece) {
  return piece.cast.needed() ? piece.cast.to_bytes() : 1;
}
inline std::size_t target_bytes(const cuda::scatter_piece& piece) {
  return std::size_t{piece.elements} * element_bytes_written(piece);
}

inline std::ptrdiff_t target_begin(const cuda::change_piece&) { return 0; }
inline std::size_t source_bytes(const cuda::change_piece& piece) {
  const std::uint64_t planes = piece.values * piece.width;
  return piece.sparse == 0
             ? planes
             : cuda::offset_of_planes(cuda::tiles_of(piece.elements), piece.values) + planes;
}
inline std::size_t target_bytes(const cuda::change_piece& piece) {
  return piece.elements * piece.width;
}

inline std::ptrdiff_t target_begin(const cuda::sum_piece&) { return 0; }
inline std::size_t source_bytes(const cuda::sum_piece& piece) { return piece.bytes; }
inline std::size_t target_bytes(const cuda::sum_piece& piece) {
  return sizeof(std::uint32_t) * cuda::chunks_of(piece.bytes);
}

// The range from the first to the last accessed byte. For a box, includes the gaps.
inline std::ptrdiff_t target_begin(const cuda::scatter_piece&) { return 0; }
inline std::ptrdiff_t target_begin(const cuda::box_piece& piece) {
  std::ptrdiff_t least = 0;
  for (unsigned d = 0; d < piece.rank; ++d) {
    const cuda::box_piece::dimension& one = piece.dimensions[d];
    least += std::min<std::ptrdiff_t>(0, static_cast<std::ptrdiff_t>(one.count - 1) * one.to);
  }
  return least;
}
inline std::size_t source_bytes(const cuda::box_piece& piece) {
  std::size_t bytes = piece.cast.needed() ? piece.cast.from_bytes() : piece.element_bytes;
  for (unsigned d = 0; d < piece.rank; ++d) {
    bytes += std::size_t{piece.dimensions[d].count - 1} * piece.dimensions[d].from;
  }
  return bytes;
}
inline std::size_t target_bytes(const cuda::box_piece& piece) {
  std::size_t bytes = piece.cast.needed() ? piece.cast.to_bytes() : piece.element_bytes;
  for (unsigned d = 0; d < piece.rank; ++d) {
    const std::int64_t step = piece.dimensions[d].to;
    bytes += std::size_t{piece.dimensions[d].count - 1} *
             static_cast<std::size_t>(step < 0 ? -step : step);
  }
  return bytes;
}

}  // namespace ringload::testing::fake_cudart
