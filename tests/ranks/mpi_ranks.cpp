// SPDX-License-Identifier: Apache-2.0

#include "mpi_ranks.hpp"

#include <ringload/mpi.hpp>

namespace {

// Initialised before the first group, and finalised after the last group.
struct mpi_session {
  mpi_session() {
    int level = 0;
    MPI_Init_thread(nullptr, nullptr, MPI_THREAD_SERIALIZED, &level);
  }
  ~mpi_session() { MPI_Finalize(); }
};

}  // namespace

std::shared_ptr<ringload::group> mpi_ranks(std::chrono::milliseconds timeout) {
  static const mpi_session session;
  return ringload::mpi_group(MPI_COMM_WORLD, timeout);
}
