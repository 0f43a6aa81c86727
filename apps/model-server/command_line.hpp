// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <stdexcept>
#include <string>
#include <variant>

#include "settings.hpp"

namespace ringload::server {

/// The person wrote something that we cannot take: exit code 2.
class usage_error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// Settings, or the text that --help or --version asks for. Throws `usage_error`.
std::variant<settings, std::string> parse_command_line(int argc, const char* const* argv);

}  // namespace ringload::server
