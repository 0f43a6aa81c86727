// SPDX-License-Identifier: Apache-2.0
#pragma once

// The component `mpi`, a library of its own: ranks of MPI, on one machine or on many.

#include <mpi.h>

#include <chrono>
#include <memory>
#include <ringload/export.hpp>
#include <ringload/group.hpp>

namespace ringload::inline v0 {

/// A group of the ranks of `among`, of which it makes a communicator of its own: all of them call
/// this together, and destroy the group before MPI_Finalize. Memory is of the host; messages are
/// copied through memory of the group.
///
/// A load of a group calls MPI from a thread of the library, so MPI was begun with
/// MPI_THREAD_SERIALIZED, if nobody else calls it meanwhile, or with MPI_THREAD_MULTIPLE; else
/// `errc::invalid_options`. Throws `ringload::error`.
///
/// What becomes of the others when a process dies is up to MPI: mpirun ends them. Where it is told
/// not to, as Open MPI's by --enable-recovery, they fail with `errc::rank_failed` within `timeout`;
/// MPI does not say which rank has died, so the error names the one that was waited for. They end
/// without MPI_Finalize then, by _exit or MPI_Abort: it may wait for the dead one for ever.
///
/// After a failure the group is of no use any more; up to half a MiB of it, which MPI may still
/// write to, stays taken until the process ends.
RINGLOAD_EXPORT std::unique_ptr<group> mpi_group(MPI_Comm among,
                                                 std::chrono::milliseconds timeout = rank_timeout);

}  // namespace ringload::inline v0
