// SPDX-License-Identifier: Apache-2.0
#include "spin.hpp"

namespace ringload {
namespace bench {

namespace {

__device__ void spin_for(unsigned long long nanoseconds) {
  unsigned long long begin = 0;
  unsigned long long now = 0;
  asm volatile("mov.u64 %0, %globaltimer;" : "=l"(begin));
  do {
    asm volatile("mov.u64 %0, %globaltimer;" : "=l"(now));
  } while (now - begin < nanoseconds);
}

__global__ void spin(unsigned long long nanoseconds) { spin_for(nanoseconds); }
__global__ void unloaded(unsigned long long nanoseconds) { spin_for(nanoseconds); }

}  // namespace

cudaError_t launch_spin(unsigned milliseconds, cudaStream_t on) {
  unsigned long long nanoseconds = milliseconds * 1000000ULL;
  void* arguments[] = {&nanoseconds};
  return cudaLaunchKernel(reinterpret_cast<const void*>(&spin), dim3(1), dim3(1), arguments, 0, on);
}

cudaError_t launch_unloaded(cudaStream_t on) {
  unsigned long long nanoseconds = 1000;
  void* arguments[] = {&nanoseconds};
  return cudaLaunchKernel(reinterpret_cast<const void*>(&unloaded), dim3(1), dim3(1), arguments, 0,
                          on);
}

}  // namespace bench
}  // namespace ringload
