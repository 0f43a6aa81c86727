// SPDX-License-Identifier: Apache-2.0
#pragma once

// A launch that waits on a stream of the stand-in: which kernel, of how many threads, on what.

#include <cstddef>

#include "device/cuda/kernels.hpp"

namespace ringload::testing::fake_cudart {

struct kernel_launch {
  using kernel = void (*)(const cuda::scatter_table);

  kernel function;
  unsigned blocks;
  unsigned threads_per_block;
  cuda::scatter_table table;  // By the device's addresses.

  // With the same table by the processor's addresses.
  void run(const cuda::scatter_table& on_processor) const;
};

inline std::size_t source_bytes(const cuda::scatter_piece& piece) {
  return std::size_t{piece.elements} * (piece.as.needed() ? piece.as.from_bytes() : 1);
}
inline std::size_t element_bytes_written(const cuda::scatter_piece& piece) {
  return piece.as.needed() ? piece.as.to_bytes() : 1;
}
inline std::size_t target_bytes(const cuda::scatter_piece& piece) {
  return std::size_t{piece.elements} * element_bytes_written(piece);
}

}  // namespace ringload::testing::fake_cudart
