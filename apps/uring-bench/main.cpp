// SPDX-License-Identifier: Apache-2.0

// uring-bench: parses the command line and runs the command.

#include <variant>

#include "command_line.hpp"
#include "commands.hpp"
#include "output.hpp"
#include "run_program.hpp"

namespace ringload::bench {

namespace {

struct run_command {
  tool::output& out;

  void operator()(const text_request& request) const {
    out.write(request.text);
    out.flush();
  }
  void operator()(const run_request& request) const { run_cell(request, out); }
  void operator()(const sweep_request& request) const { sweep(request, out); }
  void operator()(const stages_request& request) const { measure_stages(request, out); }
  void operator()(const probe_request& request) const { probe(request, out); }
  void operator()(const tune_request& request) const { tune(request, out); }
  void operator()(const net_request& request) const { net(request, out); }
};

}  // namespace

}  // namespace ringload::bench

int main(int argc, char** argv) {
  return ringload::tool::run_program("uring-bench", [argc, argv] {
    const auto request = ringload::bench::parse_command_line(argc, argv);
    ringload::tool::output out;
    std::visit(ringload::bench::run_command{out}, request);
  });
}
