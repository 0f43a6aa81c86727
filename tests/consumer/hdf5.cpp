// SPDX-License-Identifier: Apache-2.0

// A program with the component `hdf5` reads a file with libhdf5 in its own process and in another
// process.

#include <iostream>
#include <ringload/hdf5.hpp>
#include <ringload/ringload.hpp>

int main(int argc, char** argv) {
  if (const auto status = ringload::hdf5_parser_main(argc, argv)) return *status;
  if (argc != 2) return 2;
  ringload::hdf5_process apart;
  apart.program = "/proc/self/exe";
  try {
    for (const ringload::extension& with : {ringload::hdf5(), ringload::hdf5(apart)}) {
      const ringload::loader loader(ringload::host(), {}, {with});
      std::cout << ringload::read_catalog(argv[1], {}, {with}).tensors.size() << " tensors\n";
    }
  } catch (const ringload::error& e) {
    std::cerr << e.what() << '\n';
    return 1;
  }
}
