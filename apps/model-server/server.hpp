// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "settings.hpp"

namespace ringload::server {

/// Serves until SIGINT or SIGTERM, then shuts down. Prints one line with the address when the
/// server listens. Throws if the server cannot start.
void run_server(const settings& how);

}  // namespace ringload::server
