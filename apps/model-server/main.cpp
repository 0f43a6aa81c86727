// SPDX-License-Identifier: Apache-2.0

// model-server: an HTTP server that answers requests while it loads models, in one thread. Read
// models.cpp first, because it contains the loads. The other files implement a server with
// Boost.Beast.

#include "command_line.hpp"
#include "output.hpp"
#include "run_program.hpp"
#include "server.hpp"

int main(int argc, char** argv) {
  using namespace ringload;
  return tool::run_program("model-server", [argc, argv] {
    const auto asked = server::parse_command_line(argc, argv);
    if (const std::string* text = std::get_if<std::string>(&asked)) {
      tool::output out;
      out.write(*text);
      out.flush();
    } else {
      server::run_server(std::get<server::settings>(asked));
    }
  });
}
