// SPDX-License-Identifier: Apache-2.0
#pragma once

// The functions of libc for packet sockets. socket_calls.cpp calls them for the descriptors of
// packet sockets.

#include <poll.h>
#include <sys/socket.h>

#include <cstdint>

namespace ringload::simulation {

int open_packet_socket(int type);
int connect_packets(int fd, const sockaddr* address);
ssize_t send_packet_of(int fd, const msghdr* message, int flags);
ssize_t receive_packet_of(int fd, msghdr* message, int flags);
int option_of_packets(int fd, int option, void* value, socklen_t* bytes);
int set_option_of_packets(int fd, int option, const void* value);
short ready_packet_events(int fd);

// The number that getrandom() has returned last.
std::uint64_t last_random_number();

}  // namespace ringload::simulation
