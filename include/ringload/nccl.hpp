// SPDX-License-Identifier: Apache-2.0
#pragma once

// Creates groups that send messages with NCCL. The messages are in the memory of CUDA devices. This
// header belongs to the component `cuda`. NCCL 2.14 or later is loaded when a program creates its
// first group for NCCL. The build does not need NCCL. The group has been tested with a replacement
// library for NCCL, but not on GPUs.

#include <chrono>
#include <memory>
#include <ringload/export.hpp>
#include <ringload/group.hpp>
#include <string_view>

namespace ringload::inline v0 {

/// Creates a group for NCCL from `hosts`. `hosts` must be a group that sends messages in host
/// memory. Otherwise the function fails with errc::device_unavailable. All ranks of `hosts` must
/// call this function together. The new group owns `hosts` and uses `hosts` for the setup. Each
/// rank must have a CUDA device of its own. `library` is the name or the path of NCCL. A rank that
/// cannot load NCCL fails with errc::device_unavailable, and all other ranks fail with
/// errc::rank_failed.
///
/// The messages must be in the memory of the device. Each call waits until `stream` has completed
/// the earlier work of the program. Then NCCL submits the call to `stream`. A call returns when the
/// stream has completed the call. `stream` is a cudaStream_t of the device. A null pointer means
/// the default stream. For the per-thread default stream, the device must be the current device of
/// the thread that makes the calls.
///
/// If a rank does not answer, or the stream does not complete its earlier work, within `timeout`,
/// the setup of NCCL or the call fails with errc::rank_failed. The setup of NCCL cannot be
/// interrupted.
///
/// The destruction of an NCCL communicator blocks until all ranks on the machine destroy their
/// communicators. Therefore destroy the groups of all ranks at about the same time. The destructor,
/// and a call that fails, wait for the other ranks for at most 5 s. After 5 s, a thread of the
/// library continues to wait.
///
/// A load by ranks (`ringload/group_load.hpp`) with this group requires a loader for
/// `cuda_device(device)`. Each rank reads its part into the memory of its device, and the ranks
/// exchange the bytes with NCCL. The ranks use `hosts` to compare their calls. If another rank
/// fails during a call of NCCL, `hosts` reports the failure, and the call ends before `timeout`.
///
/// If the ranks are threads of one process, NCCL may access the memory of one GPU directly from
/// another GPU. Memory of `shared_cuda_device()` does not permit this access. Therefore such ranks
/// must use `cuda_device()`, or the environment of the process must contain
/// `NCCL_P2P_DIRECT_DISABLE=1`.
RINGLOAD_EXPORT std::unique_ptr<group> nccl_group(std::shared_ptr<group> hosts, int device,
                                                  void* stream,
                                                  std::string_view library = "libnccl.so.2",
                                                  std::chrono::milliseconds timeout = rank_timeout);

}  // namespace ringload::inline v0
