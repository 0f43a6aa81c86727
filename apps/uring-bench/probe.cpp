// SPDX-License-Identifier: Apache-2.0

// uring-bench probe: tests which features this machine supports, and advises how to enable the
// others.

#include "commands.hpp"
#include "machine.hpp"
#include "probe_report.hpp"

namespace ringload::bench {

void probe(const probe_request& request, tool::output& out) {
  findings all;
  for (const auto& [item, value] : machine_facts(request.path)) {
    all.push_back({"machine", item, verdict::good, value});
  }
  probe_ring(all);
  probe_registration(all);
  probe_memory(all);
  probe_path(request.path, all);
  probe_drive(request.path, all);
  probe_gpu(all);
  std::string text;
  if (request.json) {
    append(text, all);
    text += '\n';
  } else {
    text = text_of(all);
  }
  out.write(text);
  out.flush();
}

}  // namespace ringload::bench
