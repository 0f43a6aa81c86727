// SPDX-License-Identifier: Apache-2.0
#pragma once

// The communication between systemd and this program as a service. The service sends datagrams to
// the socket NOTIFY_SOCKET, like sd_notify(3). systemd passes open sockets to the service
// (LISTEN_FDS), like for sd_listen_fds(3).

#include <string>
#include <string_view>
#include <vector>

namespace ringload::tool {

/// Sends lines such as "READY=1\nSTATUS=2 models" to the service manager. Returns false if there is
/// no service manager. Throws `ringload::error` if the manager's socket cannot be written to.
bool notify_service(std::string_view lines);

/// Returns the sockets that the service manager has passed to this process. The caller owns the
/// sockets. The function removes the environment variables, so that later calls and child processes
/// find no sockets. Throws `ringload::error` if the variables are invalid.
std::vector<int> take_passed_sockets();

/// Returns the line "MONOTONIC_USEC=..." with the current time. systemd requires this line when a
/// reload begins.
std::string monotonic_microseconds();

}  // namespace ringload::tool
