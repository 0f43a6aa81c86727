// SPDX-License-Identifier: Apache-2.0

// attach_device_tool SOCKET NAME DEVICE: attaches a model on that CUDA device, prints the CRC-32C
// of all bytes or the error, and holds the model until its standard input ends.

#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <exception>
#include <ringload/cuda.hpp>
#include <ringload/keeper.hpp>
#include <ringload/verify.hpp>
#include <vector>

namespace {

int attach_and_hold(const char* socket, const char* name, int device) {
  const ringload::model held = ringload::attach(socket, name, ringload::cuda_device(device));
  std::uint32_t sum = 0;
  for (const ringload::tensor& each : held) {
    std::vector<std::byte> bytes(static_cast<std::size_t>(each.size_bytes()));
    ringload::copy_to_host(each, 0, bytes);
    sum = ringload::crc32c(bytes, sum);
  }
  std::printf("%08x\n", sum);
  std::fflush(stdout);
  char ignored = 0;
  while (::read(STDIN_FILENO, &ignored, 1) > 0) {
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 4) return 2;
  try {
    return attach_and_hold(argv[1], argv[2], std::atoi(argv[3]));
  } catch (const std::exception& e) {
    std::printf("%s\n", e.what());
    return 1;
  }
}
