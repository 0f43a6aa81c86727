// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <variant>

#include "settings.hpp"

namespace ringload::server {

/// Settings, or the text that --help or --version asks for. Throws `tool::usage_error`.
std::variant<settings, std::string> parse_command_line(int argc, const char* const* argv);

}  // namespace ringload::server
