// SPDX-License-Identifier: Apache-2.0

// uring-bench run: one cell, as often as asked, in turns with fio if asked.

#include "commands.hpp"
#include "failure.hpp"
#include "fio.hpp"
#include "interrupts.hpp"
#include "report.hpp"
#include "run.hpp"

namespace ringload::bench {

void run_cell(const run_request& request, tool::output& out) {
  check(request.what);
  tool::watch_for_interrupts();
  const target of(request.path, request.what.by);
  const cell what = request.with_fio ? comparable(request.what) : request.what;
  if (request.with_fio) {
    static_cast<void>(fio_arguments(of, what));
    if (fio_version().empty()) fail("--with-fio", "there is no fio here");
  }
  room memory;
  compared found;
  for (std::uint32_t i = 0; i < request.runs; ++i) {
    in_turns(
        i, [&] { found.ours.add(run(of, what, memory)); },
        [&] {
          if (request.with_fio) found.fio.add(run_fio(of, what));
        });
  }
  if (request.json) {
    std::string text;
    append_run(text, request, found);
    out.write(text + "\n");
  } else {
    out.write(run_text(request, found));
  }
  out.flush();
}

}  // namespace ringload::bench
