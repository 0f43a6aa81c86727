// SPDX-License-Identifier: Apache-2.0
#pragma once

// Groups of MPI ranks, on one or several machines. This header belongs to the component `mpi`,
// which is a separate library.

#include <mpi.h>

#include <chrono>
#include <memory>
#include <ringload/export.hpp>
#include <ringload/group.hpp>

namespace ringload::inline v0 {

/// Creates a group of the ranks of `communicator`. The group uses a duplicate of `communicator`.
/// All ranks must call this function together, and must destroy the group before MPI_Finalize.
/// Messages are in host memory. The group copies each message through a buffer of the group.
/// A broadcast uses MPI_Ibcast if all ranks are on one machine, or if the bytes are few. Otherwise
/// the bytes travel around a ring of ranks.
///
/// A load by ranks calls MPI from a thread of the library. Therefore MPI must be initialised with
/// MPI_THREAD_MULTIPLE. MPI_THREAD_SERIALIZED is sufficient if no other thread calls MPI during the
/// load. With a level below MPI_THREAD_SERIALIZED, this function throws `ringload::error` with
/// `errc::invalid_options`.
///
/// If a process dies, mpirun usually ends all other processes. If mpirun does not end the other
/// processes, for example with Open MPI's --enable-recovery, their calls fail with
/// `errc::rank_failed` within `timeout`. MPI does not report which rank died. Therefore the error
/// names a rank that did not send or accept a message, or "another rank" on the root of MPI_Ibcast
/// or MPI_Iscatterv. After this failure, the remaining processes must end with _exit or
/// MPI_Abort. MPI_Finalize may wait forever for the dead process.
///
/// In Open MPI 4.1.4, MPI_Testany can run forever after a process has died or was stopped. This
/// happens over TCP, and rarely over shared memory. A call then does not fail within `timeout`.
/// Therefore mpirun should end all processes.
///
/// After a failure, the group cannot be used. MPI may still access the group's buffer of 2 MiB,
/// because a collective call cannot be cancelled. Therefore the buffer is not freed until the
/// process ends.
RINGLOAD_EXPORT std::unique_ptr<group> mpi_group(MPI_Comm communicator,
                                                 std::chrono::milliseconds timeout = rank_timeout);

}  // namespace ringload::inline v0
