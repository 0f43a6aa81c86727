// SPDX-License-Identifier: Apache-2.0
#pragma once

// Unix-domain sockets (SOCK_SEQPACKET) that can send file descriptors. Used between a keeper (a
// process that shares loaded models) and its clients, and between ranks (processes or threads that
// load together).

#include <chrono>
#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/fault.hpp"
#include "base/unique_fd.hpp"

namespace ringload::inline v0 {

// Maximum number of descriptors in one packet. This is the limit of the kernel (SCM_MAX_FD).
inline constexpr std::size_t descriptors_max = 253;

// Binds and listens at `path` with the permissions `mode`. If a process that has ended left a
// socket file at `path`, replaces the file.
result<unique_fd> listen_at(const std::string& path, unsigned mode);

// Duplicates the descriptor of a listening Unix SOCK_SEQPACKET socket that another process has
// created. Returns EINVAL for any other descriptor.
result<unique_fd> adopt_listening(int descriptor);

// `timeout` limits this call, and each later send and receive on the returned socket. A call that
// exceeds the limit returns ETIMEDOUT. After a signal, a send or a receive begins its time limit
// again, so call await_packet() before a receive that must end in time.
result<unique_fd> connect_to(const std::string& path, std::chrono::milliseconds timeout);

// Waits until receive_packet() does not block. Returns ETIMEDOUT after `timeout`, even if signals
// arrive meanwhile. Without `timeout`, the wait has no time limit.
result<void> await_packet(const unique_fd& socket,
                          std::optional<std::chrono::milliseconds> timeout);

result<void> send_packet(const unique_fd& socket, std::span<const std::byte> bytes,
                         std::span<const int> descriptors = {});

struct received_packet {
  // 0 if the other process has closed the connection.
  std::size_t bytes = 0;
  std::vector<unique_fd> descriptors;
};

// Returns errc::malformed_message if the packet is larger than `buffer`, or if this process cannot
// receive all descriptors of the packet (ulimit -n).
result<received_packet> receive_packet(const unique_fd& socket, std::span<std::byte> buffer);

// Returns the user id that the other process had at the time of the connection.
result<unsigned> peer_user_id(const unique_fd& socket);

}  // namespace ringload::inline v0
