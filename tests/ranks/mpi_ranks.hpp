// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <memory>
#include <ringload/group.hpp>

// The ranks of MPI_COMM_WORLD. MPI is initialised by the first call, and finalised at the end of
// the program.
std::shared_ptr<ringload::group> mpi_ranks(std::chrono::milliseconds timeout);
