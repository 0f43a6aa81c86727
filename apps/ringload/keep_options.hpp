// SPDX-License-Identifier: Apache-2.0
#pragma once

// Command-line options of `keep`.

#include <CLI/CLI.hpp>
#include <string>

#include "requests.hpp"

namespace ringload::tool {

/// `footer` is the text about sources and sizes.
void add_keep(CLI::App& root, keep_request& request, const std::string& footer);

}  // namespace ringload::tool
