// SPDX-License-Identifier: Apache-2.0
#pragma once

// Unix sockets of packets, with descriptors in them.

#include <chrono>
#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "core/fault.hpp"
#include "core/unique_fd.hpp"

namespace ringload::inline v0 {

// That the kernel passes with one packet (SCM_MAX_FD).
inline constexpr std::size_t descriptors_max = 253;

// Binds a socket that nobody waits at any more, or none; with that mode, and listening.
result<unique_fd> listen_at(const std::string& path, unsigned mode);

// Each step ends with ETIMEDOUT after `most`.
result<unique_fd> connect_to(const std::string& path, std::chrono::milliseconds most);

// Does not block where the socket does not.
result<void> send_packet(const unique_fd& to, std::span<const std::byte> bytes,
                         std::span<const int> descriptors = {});

struct received_packet {
  std::size_t bytes = 0;  // In `room`. 0: the other end is closed.
  std::vector<unique_fd> descriptors;
};

// A packet larger than `room`, or with more than `descriptors_max`, is errc::malformed_message.
result<received_packet> receive_packet(const unique_fd& from, std::span<std::byte> room);

// The user of the process at the other end, as it was when it connected.
result<unsigned> user_at(const unique_fd& other_end);

}  // namespace ringload::inline v0
