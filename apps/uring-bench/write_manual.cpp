// SPDX-License-Identifier: Apache-2.0

// write_manual FOLDER: writes the manual page and the completions of uring-bench.

#include <exception>
#include <iostream>

#include "command_line.hpp"
#include "manual_text.hpp"

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  try {
    ringload::bench::describe_command_line([argv](const CLI::App& root) {
      ringload::tool::write_manual(root, ringload::bench::manual_text, argv[1]);
    });
  } catch (const std::exception& e) {
    std::cerr << e.what() << '\n';
    return 1;
  }
}
