// SPDX-License-Identifier: Apache-2.0
#pragma once

// A group whose messages are in memory of CUDA devices, with NCCL. It belongs to the component
// `cuda`. NCCL, version 2.7 or later, is loaded when the first such group is created, and is not
// needed for the build. The group is tested with a library that replaces NCCL. It has not been run
// on GPUs.

#include <chrono>
#include <memory>
#include <ringload/export.hpp>
#include <ringload/group.hpp>
#include <string_view>

namespace ringload::inline v0 {

/// All ranks of `hosts`, a group in host memory, must call this function together. The new group
/// uses `hosts` for its setup and owns it afterwards. Each rank has its own device. The arguments
/// of calls are memory of the device. Calls are enqueued on `stream` (a cudaStream_t of the device;
/// null is the default stream), so they run after earlier work of the program on the stream. A call
/// returns when the stream has completed it.
///
/// `library` is the name or path of NCCL. If it cannot be loaded on a rank, all ranks fail with
/// errc::device_unavailable. If a rank dies during the setup of NCCL, the other ranks may wait
/// forever. The time limit, fail() and interrupt() work only after the setup.
///
/// A load of a group requires host memory, and refuses this group with `errc::device_unavailable`.
RINGLOAD_EXPORT std::unique_ptr<group> nccl_group(std::shared_ptr<group> hosts, int device,
                                                  void* stream,
                                                  std::string_view library = "libnccl.so.2",
                                                  std::chrono::milliseconds timeout = rank_timeout);

}  // namespace ringload::inline v0
