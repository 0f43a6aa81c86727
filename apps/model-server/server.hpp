// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "settings.hpp"

namespace ringload::server {

/// Serves until SIGINT or SIGTERM, and then until what is under way has ended. Prints where it
/// listens, one line, when it does. Throws what keeps it from beginning.
void run_server(const settings& how);

}  // namespace ringload::server
