// SPDX-License-Identifier: Apache-2.0

// A program with the component `mpi` creates a group of its processes and prints its rank.

#include <iostream>
#include <ringload/mpi.hpp>
#include <ringload/ringload.hpp>

int main(int argc, char** argv) {
  int provided = 0;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
  try {
    const auto group = ringload::mpi_group(MPI_COMM_WORLD);
    std::cout << "rank " << group->rank() << " of " << group->size() << '\n';
  } catch (const ringload::error& e) {
    std::cerr << e.what() << '\n';
    return 1;
  }
  MPI_Finalize();
}
