// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "requests.hpp"

namespace ringload::bench {

/// Throws `usage_error`. Nothing of the file system is looked at.
any_request parse_command_line(int argc, const char* const* argv);

}  // namespace ringload::bench
