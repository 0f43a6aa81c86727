// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <variant>

#include "settings.hpp"

namespace ringload::server {

/// Returns the settings, or the text of --help or --version. Throws `tool::usage_error`.
std::variant<settings, std::string> parse_command_line(int argc, const char* const* argv);

}  // namespace ringload::server
