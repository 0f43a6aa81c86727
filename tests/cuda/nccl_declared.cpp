// SPDX-License-Identifier: Apache-2.0

// Compares the declarations of NCCL with nccl.h. Compiled only if nccl.h exists.

#include <nccl.h>

#include <cstddef>

#include "ranks/nccl/nccl_library.hpp"

namespace {

namespace ours = ringload::nccl;

static_assert(sizeof(ours::unique_id) == sizeof(ncclUniqueId));
static_assert(ours::success == ncclSuccess && ours::in_progress == ncclInProgress);
static_assert(ours::byte_type == ncclInt8);
static_assert(sizeof(ours::result_code) == sizeof(ncclResult_t));
static_assert(offsetof(ours::config, bytes) == offsetof(ncclConfig_t, size));
static_assert(offsetof(ours::config, magic) == offsetof(ncclConfig_t, magic));
static_assert(offsetof(ours::config, version) == offsetof(ncclConfig_t, version));
static_assert(offsetof(ours::config, blocking) == offsetof(ncclConfig_t, blocking));
static_assert(sizeof(ours::config) <= sizeof(ncclConfig_t));
static_assert(ours::config().version == NCCL_VERSION(2, 14, 0));

constexpr ncclConfig_t initial = NCCL_CONFIG_INITIALIZER;
static_assert(ours::config().magic == initial.magic);

// The arguments in order. The types of NCCL have other names.
using init_call = ncclResult_t (*)(ncclComm_t*, int, ncclUniqueId, int, ncclConfig_t*);
using send_call = ncclResult_t (*)(const void*, std::size_t, ncclDataType_t, int, ncclComm_t,
                                   cudaStream_t);
using receive_call = ncclResult_t (*)(void*, std::size_t, ncclDataType_t, int, ncclComm_t,
                                      cudaStream_t);
using broadcast_call = ncclResult_t (*)(const void*, void*, std::size_t, ncclDataType_t, int,
                                        ncclComm_t, cudaStream_t);
using error_call = ncclResult_t (*)(ncclComm_t, ncclResult_t*);
[[maybe_unused]] constexpr init_call init = &ncclCommInitRankConfig;
[[maybe_unused]] constexpr send_call send = &ncclSend;
[[maybe_unused]] constexpr receive_call receive = &ncclRecv;
[[maybe_unused]] constexpr broadcast_call broadcast = &ncclBroadcast;
[[maybe_unused]] constexpr error_call async_error = &ncclCommGetAsyncError;

}  // namespace
