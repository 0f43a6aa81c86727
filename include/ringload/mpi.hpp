// SPDX-License-Identifier: Apache-2.0
#pragma once

// The component `mpi`, a separate library: groups of MPI ranks, on one machine or on many.

#include <mpi.h>

#include <chrono>
#include <memory>
#include <ringload/export.hpp>
#include <ringload/group.hpp>

namespace ringload::inline v0 {

/// Creates a group of the ranks of `among`, with its own communicator. All ranks must call this
/// function together, and must destroy the group before MPI_Finalize. Messages are in host memory,
/// and are copied through memory of the group.
///
/// A load of a group calls MPI from a thread of the library. So MPI must be initialised with
/// MPI_THREAD_MULTIPLE, or with MPI_THREAD_SERIALIZED if no other thread calls MPI during the load;
/// else `errc::invalid_options`. Throws `ringload::error`.
///
/// If a process dies, MPI decides about the other processes: mpirun ends them. If mpirun must not
/// end them, such as with Open MPI's --enable-recovery, they fail with `errc::rank_failed` within
/// `timeout`. MPI does not report the dead rank, so the error names the rank that was waited for.
/// The processes must then end with _exit or MPI_Abort, without MPI_Finalize, which may wait for
/// the dead process forever.
///
/// After a failure the group cannot be used. Up to half a MiB of its memory, which MPI may still
/// write to, is not freed until the process ends.
RINGLOAD_EXPORT std::unique_ptr<group> mpi_group(MPI_Comm among,
                                                 std::chrono::milliseconds timeout = rank_timeout);

}  // namespace ringload::inline v0
