// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>

#include "requests.hpp"

namespace CLI {
class App;
}

namespace ringload::bench {

/// Throws `usage_error`. Does not access the file system.
any_request parse_command_line(int argc, const char* const* argv);

/// Calls `visit` with the definitions of the command line, which are valid only during the call.
void describe_command_line(const std::function<void(const CLI::App&)>& visit);

}  // namespace ringload::bench
