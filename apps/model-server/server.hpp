// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "settings.hpp"

namespace ringload::server {

/// Serves until SIGINT or SIGTERM, then shuts down gracefully. Prints one line with the address
/// once it listens. Throws if it cannot start.
void run_server(const settings& how);

}  // namespace ringload::server
