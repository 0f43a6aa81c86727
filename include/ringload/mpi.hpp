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
/// this together, and destroy the group before MPI_Finalize. Memory is of the host.
///
/// A load of a group calls MPI from a thread of the library, so MPI was begun with
/// MPI_THREAD_SERIALIZED, if nobody else calls it meanwhile, or with MPI_THREAD_MULTIPLE; else
/// `errc::invalid_limits`. Throws `ringload::error`.
///
/// What becomes of the others when a process dies is up to MPI: mpirun ends them, unless it is told
/// otherwise, and then they give up after `timeout`. After a failure the group is of no use any
/// more, and what was being sent may still be read until MPI_Finalize or MPI_Abort.
RINGLOAD_EXPORT std::unique_ptr<group> mpi_group(MPI_Comm among,
                                                 std::chrono::milliseconds timeout = rank_timeout);

}  // namespace ringload::inline v0
