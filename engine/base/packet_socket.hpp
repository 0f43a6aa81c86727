// SPDX-License-Identifier: Apache-2.0
#pragma once

// Unix-domain SOCK_SEQPACKET sockets that also pass file descriptors.

#include <chrono>
#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "base/fault.hpp"
#include "base/unique_fd.hpp"

namespace ringload::inline v0 {

// The kernel's limit on descriptors in one packet (SCM_MAX_FD).
inline constexpr std::size_t descriptors_max = 253;

// Binds and listens at `path` with permissions `mode`. A socket file whose process is gone is
// replaced.
result<unique_fd> listen_at(const std::string& path, unsigned mode);

// Connecting, sending and receiving fail with ETIMEDOUT after `most`.
result<unique_fd> connect_to(const std::string& path, std::chrono::milliseconds most);

// Does not block if the socket is non-blocking.
result<void> send_packet(const unique_fd& to, std::span<const std::byte> bytes,
                         std::span<const int> descriptors = {});

struct received_packet {
  std::size_t bytes = 0;  // Bytes in `room`. 0: the other end is closed.
  std::vector<unique_fd> descriptors;
};

// Fails with errc::malformed_message if the packet is larger than `room` or has more than
// `descriptors_max` descriptors.
result<received_packet> receive_packet(const unique_fd& from, std::span<std::byte> room);

// Returns the user id of the peer process at the time of its connect.
result<unsigned> user_at(const unique_fd& other_end);

}  // namespace ringload::inline v0
