// SPDX-License-Identifier: Apache-2.0
#pragma once

// The common parts of the functions of libc for stream sockets and for packet sockets.

#include <cstdint>

namespace ringload::simulation {

// Returns -1, with this error number in errno.
int failed_with(int error_number);

// Returns true if a call with these flags may wait.
bool is_blocking(int fd, int flags);

// Returns true if the process has no descriptor left for a socket. Counts the fault.
bool is_socket_refused();

// The calling thread waits until a descriptor changes, but not after the deadline.
void wait_for_descriptors(std::int64_t deadline);

}  // namespace ringload::simulation
