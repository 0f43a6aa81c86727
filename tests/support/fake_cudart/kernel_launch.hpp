// SPDX-License-Identifier: Apache-2.0
#pragma once

// A kernel launch on a stream of the stand-in: the kernel, its threads and its arguments.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <variant>
#include <vector>

#include "device/cuda/kernels.hpp"

namespace ringload::testing::fake_cudart {

struct kernel_launch {
  using any_table = std::variant<cuda::scatter_table, cuda::box_table>;

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
