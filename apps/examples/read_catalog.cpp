// SPDX-License-Identifier: Apache-2.0

// Prints the tensors of a checkpoint without loading the tensors.
//
//   read_catalog CHECKPOINT

#include <exception>
#include <iostream>
#include <ringload/source.hpp>

int main(int argc, char** argv) {
  if (argc != 2) {
    std::cerr << "usage: read_catalog CHECKPOINT\n";
    return 2;
  }
  try {
    const ringload::catalog catalog = ringload::read_catalog(argv[1]);
    for (const ringload::tensor_info& tensor : catalog.tensors) {
      std::cout << tensor.name << ": " << name(tensor.dtype) << " [";
      for (const char* before = ""; const std::uint64_t size : tensor.shape) {
        std::cout << before << size;
        before = ", ";
      }
      std::cout << "], bytes " << tensor.offset << " to " << tensor.offset + tensor.bytes << " of "
                << catalog.files[tensor.file].path << '\n';
    }
    std::cout << catalog.tensors.size() << " tensors, " << catalog.size_bytes() << " bytes\n";
  } catch (const std::exception& failure) {
    std::cerr << failure.what() << '\n';
    return 1;
  }
}
