// SPDX-License-Identifier: Apache-2.0

// The library's own kernels, compiled for the processor, and a launch that runs them there.

// In this order: the first header is what the second file is compiled with.
#include "support/fake_cudart/device_code.hpp"
//
#include "device/cuda/kernels.cu"
//
#include "support/fake_cudart/kernel_launch.hpp"

namespace ringload::testing::fake_cudart {

// Among the blocks of a kernel there is no order: the last comes first.
void kernel_launch::run(const cuda::scatter_table& on_processor) const {
  block_size = {threads_per_block};
  for (unsigned b = blocks; b-- > 0;) {
    this_block = {b};
    for (unsigned t = 0; t < threads_per_block; ++t) {
      this_thread = {t};
      function(on_processor);
    }
  }
}

}  // namespace ringload::testing::fake_cudart
