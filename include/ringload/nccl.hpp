// SPDX-License-Identifier: Apache-2.0
#pragma once

// A group whose messages are memory of CUDA devices, by NCCL. It is part of the component `cuda`:
// NCCL itself is loaded when the first such group is made, from 2.7 on, and nothing is needed of it
// to build. It is tested against a library that stands in for NCCL; on GPUs it has not been run.

#include <chrono>
#include <memory>
#include <ringload/export.hpp>
#include <ringload/group.hpp>
#include <string_view>

namespace ringload::inline v0 {

/// All ranks of `hosts`, a group of host memory, call this together: over it they meet, and it is
/// theirs alone from then on. Each has a device of its own. What calls are given is memory of that
/// device; they are put on `stream` (a cudaStream_t of the device; null is its default stream), so
/// they come after what the program has put there, and return when the stream is through with them.
///
/// `library` is NCCL's name or path. errc::device_unavailable where it cannot be loaded, on all
/// ranks. A rank that dies while they meet in NCCL can keep the others there: only once they have
/// met the time limit holds, and fail() and interrupt() end calls.
///
/// A load of a group is of host memory, and refuses this one with `errc::device_unavailable`.
RINGLOAD_EXPORT std::unique_ptr<group> nccl_group(std::shared_ptr<group> hosts, int device,
                                                  void* stream,
                                                  std::string_view library = "libnccl.so.2",
                                                  std::chrono::milliseconds timeout = rank_timeout);

}  // namespace ringload::inline v0
