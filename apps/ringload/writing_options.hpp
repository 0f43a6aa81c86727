// SPDX-License-Identifier: Apache-2.0
#pragma once

// Command-line options of the commands that write checkpoints.

#include <CLI/CLI.hpp>

#include "requests.hpp"

namespace ringload::tool {

inline constexpr const char* about_destination =
    "The last argument is what is written: a .zt file, a .safetensors file, or a folder of\n"
    "safetensors. It must not exist, and appears when it is whole.\n";

void add_progress(CLI::App& to, bool& progress);

/// Those that `convert` has beside the ones of a load.
void add_convert_options(CLI::App& to, convert_request& request);

/// Takes the destination from the end of the sources, and checks that the options fit it.
void take_destination(convert_request& request);

/// append, remove, replace, migrate, compress, decompress, merge.
void add_rewriting(CLI::App& root, rewrite_request& request);

}  // namespace ringload::tool
