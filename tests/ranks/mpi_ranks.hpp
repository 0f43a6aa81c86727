// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <memory>
#include <ringload/group.hpp>

// The ranks of MPI_COMM_WORLD. MPI is begun with the first call, and ended with the program.
std::shared_ptr<ringload::group> mpi_ranks(std::chrono::milliseconds timeout);
