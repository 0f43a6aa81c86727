// SPDX-License-Identifier: Apache-2.0

// model-server: an HTTP server that answers while it loads, on one thread. Read models.cpp first:
// there ringload is used. The rest is what any server on Boost.Beast has.

#include <fmt/format.h>

#include <cstdio>
#include <exception>

#include "command_line.hpp"
#include "server.hpp"

namespace {

int run(int argc, const char* const* argv) {
  try {
    const auto asked = ringload::server::parse_command_line(argc, argv);
    if (const std::string* text = std::get_if<std::string>(&asked)) {
      fmt::print("{}", *text);
    } else {
      ringload::server::run_server(std::get<ringload::server::settings>(asked));
    }
    return 0;
  } catch (const ringload::server::usage_error& wrong) {
    fmt::print(stderr, "model-server: usage: {}\n", wrong.what());
    return 2;
  } catch (const std::exception& failed) {
    fmt::print(stderr, "model-server: error: {}\n", failed.what());
    return 1;
  }
}

}  // namespace

int main(int argc, char** argv) { return run(argc, argv); }
