// SPDX-License-Identifier: Apache-2.0

#include "device/cuda/free_memory.hpp"

#include <cuda_runtime_api.h>

#include <utility>

#include "base/printable.hpp"
#include "device/available.hpp"
#include "device/cuda/runtime.hpp"

namespace ringload::inline v0::cuda {

result<std::string> describe_free_memory(int index, std::uint64_t bytes, std::uint64_t kept_bytes) {
  const std::string name = "cuda:" + std::to_string(index);
  // The calling thread is a thread of the library and has no current device.
  if (auto failed = use_device(index)) return fault{failed, name};
  std::size_t free_bytes = 0;
  std::size_t total_bytes = 0;
  int is_integrated = 0;
  auto failed = code_of(cudaMemGetInfo(&free_bytes, &total_bytes));
  if (!failed) {
    failed = code_of(cudaDeviceGetAttribute(&is_integrated, cudaDevAttrIntegrated, index));
  }
  if (failed) return fault{failed, name};
  // An integrated GPU uses the host's memory. CUDA counts the page cache as used, although the
  // kernel frees the page cache on demand.
  if (is_integrated != 0) free_bytes = available_bytes().value_or(free_bytes);
  std::string needed = "the tensors need " + grouped(bytes) + " bytes, " + name + " has " +
                       grouped(free_bytes) + " of " + grouped(total_bytes) + " free";
  if (bytes > free_bytes + kept_bytes) return fault{errc::memory_exceeded, "", std::move(needed)};
  return needed;
}

}  // namespace ringload::inline v0::cuda
