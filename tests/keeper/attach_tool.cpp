// SPDX-License-Identifier: Apache-2.0

// attach_tool SOCKET NAME [USER]: attaches a model, as another user if USER is set, prints the
// CRC-32C of all bytes or the error, and holds the model until its standard input ends.

#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <exception>
#include <optional>
#include <ringload/keeper.hpp>
#include <ringload/verify.hpp>

namespace {

int attach_and_hold(const char* socket, const char* name) {
  const ringload::model held = ringload::attach(socket, name);
  std::uint32_t sum = 0;
  for (const ringload::tensor& each : held) {
    sum = ringload::crc32c({static_cast<const std::byte*>(each.data()), each.size_bytes()}, sum);
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
  if (argc < 3) return 2;
  if (argc > 3 && ::setuid(static_cast<uid_t>(std::atoi(argv[3]))) != 0) return 2;
  try {
    return attach_and_hold(argv[1], argv[2]);
  } catch (const std::exception& e) {
    std::printf("%s\n", e.what());
    return 1;
  }
}
