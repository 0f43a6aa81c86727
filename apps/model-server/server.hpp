// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "settings.hpp"

namespace ringload::server {

/// Runs the server until SIGINT or SIGTERM, then shuts it down. Prints its address when it listens.
/// Throws if the server cannot start.
void run_server(const settings& how);

}  // namespace ringload::server
