// SPDX-License-Identifier: Apache-2.0

// The program ringload-hdf5-parse, which parses one HDF5 file. Used as hdf5_process::program by a
// program that cannot run itself as the parsing process.

#include <iostream>
#include <ringload/hdf5.hpp>

int main(int argc, char** argv) {
  if (const auto status = ringload::hdf5_parser_main(argc, argv)) return *status;
  std::cerr << "ringload-hdf5-parse: must be run by ringload, as hdf5_process::program\n";
  return 2;
}
