// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime_api.h>

namespace ringload {
namespace bench {

// Keeps one block of the card busy for this time.
cudaError_t launch_spin(unsigned milliseconds, cudaStream_t on);

// The same kernel under a second name, so that it has its own first launch.
cudaError_t launch_unloaded(cudaStream_t on);

}  // namespace bench
}  // namespace ringload
