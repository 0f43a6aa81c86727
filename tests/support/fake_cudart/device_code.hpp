// SPDX-License-Identifier: Apache-2.0
#pragma once

// Lets the source of a kernel compile for the CPU. Each thread of the device is one call of the
// kernel.

#include <cuda_runtime_api.h>

#define __global__
#define __device__

namespace ringload::testing::fake_cudart {

struct position {
  unsigned x;
  unsigned y;
};

inline thread_local position this_block{};
inline thread_local position this_thread{};
inline thread_local position block_size{};
inline thread_local position grid_size{};

}  // namespace ringload::testing::fake_cudart

#define blockIdx ringload::testing::fake_cudart::this_block
#define threadIdx ringload::testing::fake_cudart::this_thread
#define blockDim ringload::testing::fake_cudart::block_size
#define gridDim ringload::testing::fake_cudart::grid_size
