// SPDX-License-Identifier: Apache-2.0
#pragma once

// The functions of NCCL 2.14 or later that ringload calls. load_library() finds the functions at
// run time. tests/cuda/CMakeLists.txt compares the declarations with NCCL's nccl.h.

#include <cuda_runtime_api.h>

#include <cstddef>
#include <memory>
#include <string>

#include "base/fault.hpp"

namespace ringload::inline v0::nccl {

struct unique_id {
  char internal[128];
};
struct comm;
using result_code = int;
inline constexpr result_code success = 0;
inline constexpr result_code in_progress = 7;
inline constexpr int byte_type = 0;  // ncclInt8.

// ncclConfig_t of NCCL 2.14. Later versions of the struct have more members. NCCL uses the defaults
// for the members that are not in the first `bytes` bytes.
struct config {
  std::size_t bytes = sizeof(config);
  unsigned magic = 0xcafebeef;
  unsigned version = 21400;
  int blocking = 0;
};

struct library {
  result_code (*ncclGetUniqueId)(unique_id* result) = nullptr;
  // `result` must stay valid until the communicator is connected to the other ranks or is aborted.
  result_code (*ncclCommInitRankConfig)(comm** result, int ranks, unique_id id, int rank,
                                        const config* options) = nullptr;
  result_code (*ncclCommDestroy)(comm* communicator) = nullptr;
  result_code (*ncclCommAbort)(comm* communicator) = nullptr;
  result_code (*ncclCommGetAsyncError)(comm* communicator, result_code* outcome) = nullptr;
  const char* (*ncclGetErrorString)(result_code outcome) = nullptr;
  result_code (*ncclGroupStart)() = nullptr;
  result_code (*ncclGroupEnd)() = nullptr;
  result_code (*ncclSend)(const void* from, std::size_t count, int type, int peer,
                          comm* communicator, cudaStream_t cuda_stream) = nullptr;
  result_code (*ncclRecv)(void* into, std::size_t count, int type, int peer, comm* communicator,
                          cudaStream_t cuda_stream) = nullptr;
  result_code (*ncclBroadcast)(const void* from, void* into, std::size_t count, int type, int root,
                               comm* communicator, cudaStream_t cuda_stream) = nullptr;
};

// Loads the NCCL library and finds its functions. The library stays loaded until the process ends.
result<std::shared_ptr<const library>> load_library(const std::string& name);

}  // namespace ringload::inline v0::nccl
