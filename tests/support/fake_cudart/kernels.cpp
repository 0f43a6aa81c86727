// SPDX-License-Identifier: Apache-2.0

// The kernels of the library, compiled for the CPU, and a launch that runs them.

// The order matters: the second file is compiled with the first header.
#include "support/fake_cudart/device_code.hpp"
//
#include "device/cuda/kernels.cu"
//
#include "support/fake_cudart/kernel_launch.hpp"

namespace ringload::testing::fake_cudart {

kernel_launch::any_table table_of(const void* kernel, const void* argument) {
  if (kernel == cuda::address_of_boxes()) return *static_cast<const cuda::box_table*>(argument);
  return *static_cast<const cuda::scatter_table*>(argument);
}

// The blocks of a kernel have no order, so the last block runs first.
void kernel_launch::run(const any_table& on_processor) const {
  block_size = {threads_per_block, 1};
  grid_size = {blocks, rows};
  for (unsigned b = blocks * rows; b-- > 0;) {
    this_block = {b % blocks, b / blocks};
    for (unsigned t = 0; t < threads_per_block; ++t) {
      this_thread = {t, 0};
      if (const auto* const boxes = std::get_if<cuda::box_table>(&on_processor)) {
        cuda::copy_boxes(*boxes);
      } else {
        cuda::scatter(std::get<cuda::scatter_table>(on_processor));
      }
    }
  }
}

}  // namespace ringload::testing::fake_cudart
