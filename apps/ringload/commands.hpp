// SPDX-License-Identifier: Apache-2.0
#pragma once

// The commands. Each command writes its output to `out`, and then flushes `out`. After an error, a
// command throws.

#include "output.hpp"
#include "requests.hpp"

namespace ringload::tool {

void list_catalog(const ls_request& request, output& out);
void load_checkpoint(const load_request& request, output& out);
void sum_tensors(const sum_request& request, output& out);
void verify_checkpoint(const verify_request& request, output& out);
void make_checkpoint(const make_request& request, output& out);
void convert_checkpoint(const convert_request& request, output& out);
/// Serves models until a signal is received.
void keep_models(const keep_request& request, output& out);
void make_delta(const delta_request& request, output& out);
void apply_deltas(const apply_request& request, output& out);
void rewrite_archive(const rewrite_request& request, output& out);

}  // namespace ringload::tool
