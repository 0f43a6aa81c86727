// SPDX-License-Identifier: Apache-2.0

// ringload-hdf5-parse: hdf5_process::program for programs that cannot run themselves.

#include <iostream>
#include <ringload/hdf5.hpp>

int main(int argc, char** argv) {
  if (const auto status = ringload::hdf5_parser_main(argc, argv)) return *status;
  std::cerr << "ringload-hdf5-parse: must be run by ringload, as hdf5_process::program\n";
  return 2;
}
