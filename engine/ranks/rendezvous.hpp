// SPDX-License-Identifier: Apache-2.0
#pragma once

// Connects the processes of a group, through a Unix socket or over TCP. Afterwards, two sockets
// connect each pair of ranks.

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "base/fault.hpp"
#include "base/unique_fd.hpp"
#include "ranks/socket_group.hpp"
#include "ranks/tcp_socket.hpp"

namespace ringload::inline v0::detail {

// The sockets of one rank, indexed by peer. The element of the rank itself is empty.
using sockets_of_rank = std::vector<rank_sockets>;

// The parameters with which one rank joins a group.
struct rendezvous {
  std::uint32_t rank;
  std::uint32_t ranks;
  std::chrono::steady_clock::time_point deadline;
  const unique_fd& wake;  // Readable after joining was cancelled.
};

// Returns the time until `end`, at least 1 ms and at most the maximum for poll().
std::chrono::milliseconds time_left(std::chrono::steady_clock::time_point end);

fault joining_cancelled();

// Waits until `socket` is ready for `direction` (POLLIN or POLLOUT) or closed by the peer. If
// `socket` is -1, waits until `end`. Fails with ETIMEDOUT at `end` and with ECANCELED after a
// cancellation.
result<void> await_ready(const rendezvous& joining, int socket, short direction,
                         std::chrono::steady_clock::time_point end);

// Returns true if accept4() failed for a temporary reason and can be called again.
bool is_temporary(int error_number);

// Rank 0 listens at the Unix socket `path`, creates all sockets, and sends each rank its sockets.
result<sockets_of_rank> meet_at_path(const rendezvous& joining, const std::string& path);

// Rank 0 listens at `address`. Every other rank listens at a port that the kernel chooses. Rank 0
// sends the addresses of all ranks to all ranks, and each rank connects to all lower ranks.
result<sockets_of_rank> meet_over_tcp(const rendezvous& joining, const tcp_meeting& address);

}  // namespace ringload::inline v0::detail
