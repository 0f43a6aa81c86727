// SPDX-License-Identifier: Apache-2.0
#pragma once

// The commands of uring-bench. Each command carries out its request and writes its report.
// run_program() converts exceptions of a command to an exit code.

#include "output.hpp"
#include "requests.hpp"

namespace ringload::bench {

void run_cell(const run_request& request, tool::output& out);
void sweep(const sweep_request& request, tool::output& out);
void measure_stages(const stages_request& request, tool::output& out);
void probe(const probe_request& request, tool::output& out);
void tune(const tune_request& request, tool::output& out);
void net(const net_request& request, tool::output& out);

}  // namespace ringload::bench
