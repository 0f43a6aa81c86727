// SPDX-License-Identifier: Apache-2.0

// uring-bench run: measures one cell several times, on request in turns with fio.

#include "commands.hpp"
#include "failure.hpp"
#include "fio.hpp"
#include "interrupts.hpp"
#include "report.hpp"
#include "run.hpp"

namespace ringload::bench {

void run_cell(const run_request& request, tool::output& out) {
  check(request.config);
  tool::watch_for_interrupts();
  const target source(request.path, request.config.by);
  const cell config = request.with_fio ? comparable(request.config) : request.config;
  if (request.with_fio) {
    static_cast<void>(fio_arguments(source, config));
    if (fio_version().empty()) fail("--with-fio", "there is no fio here");
  }
  read_buffer memory;
  compared comparison;
  for (std::uint32_t i = 0; i < request.runs; ++i) {
    in_turns(
        i, [&] { comparison.ours.add(run(source, config, memory)); },
        [&] {
          if (request.with_fio) comparison.fio.add(run_fio(source, config));
        });
  }
  if (request.json) {
    std::string text;
    append_run(text, request, comparison);
    out.write(text + "\n");
  } else {
    out.write(run_text(request, comparison));
  }
  out.flush();
}

}  // namespace ringload::bench
