// SPDX-License-Identifier: Apache-2.0

// ringload, the command-line tool: parses the command line and runs the command.

#include <variant>

#include "command_line.hpp"
#include "commands.hpp"
#include "output.hpp"
#include "run_program.hpp"

namespace ringload::tool {

namespace {

struct run_command {
  output& out;

  void operator()(const text_request& request) const {
    out.write(request.text);
    out.flush();
  }
  void operator()(const ls_request& request) const { list_catalog(request, out); }
  void operator()(const load_request& request) const { load_checkpoint(request, out); }
  void operator()(const sum_request& request) const { sum_tensors(request, out); }
  void operator()(const verify_request& request) const { verify_checkpoint(request, out); }
  void operator()(const make_request& request) const { make_checkpoint(request, out); }
  void operator()(const convert_request& request) const { convert_checkpoint(request, out); }
  void operator()(const delta_request& request) const { make_delta(request, out); }
  void operator()(const apply_request& request) const { apply_deltas(request, out); }
  void operator()(const keep_request& request) const { keep_models(request, out); }
  void operator()(const rewrite_request& request) const { rewrite_archive(request, out); }
};

}  // namespace

}  // namespace ringload::tool

int main(int argc, char** argv) {
  using namespace ringload::tool;
  return run_program("ringload", [argc, argv] {
    const any_request asked = parse_command_line(argc, argv);
    output out;
    std::visit(run_command{out}, asked);
  });
}
