// SPDX-License-Identifier: Apache-2.0
#pragma once

// Command-line options of the commands that write checkpoints.

#include <CLI/CLI.hpp>

#include "requests.hpp"

namespace ringload::tool {

inline constexpr const char* about_destination =
    "The last argument is the result: a .zt file, a .safetensors file, or a folder of\n"
    "safetensors files. It must not exist, and appears when it is complete. A file may\n"
    "also be an object: s3://bucket/key.safetensors or s3://bucket/key.zt.\n";

void add_progress(CLI::App& to, bool& progress);

/// Adds the options of `convert` that are not options of a load.
void add_convert_options(CLI::App& to, convert_request& request);

/// Moves the last source to `request.to`, and checks that the options are allowed for this
/// destination.
void take_destination(convert_request& request);

/// Adds the commands delta and apply.
void add_delta(CLI::App& root, delta_request& request);
void add_apply(CLI::App& root, apply_request& request);

/// Adds the commands append, remove, replace, migrate, compress, decompress and merge.
void add_rewriting(CLI::App& root, rewrite_request& request);

}  // namespace ringload::tool
