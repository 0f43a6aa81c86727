// SPDX-License-Identifier: Apache-2.0
#pragma once

// The messages of a keeper and its clients, over a Unix socket of type SOCK_SEQPACKET. A keeper is
// a process that shares loaded models with other processes.
//
//   client                          keeper
//     request(name, ..)  -------->
//                        <--------    reply(answer, version, counts of regions)
//     ... uses the model ...
//     closes the socket  -------->    decrements the client count of the model
//
// If the answer is `attached`, the reply contains descriptors: one for the description of the model
// (keeper/description.hpp), and one for each memory region. If a client process ends, the kernel
// closes its socket. The keeper does not reply to `attach_next` until it serves another version
// than `current`.
//
// Each side sends one packet. The kernel delivers only whole packets.

#include <cstddef>
#include <cstdint>
#include <ringload/keeper.hpp>
#include <span>
#include <string>
#include <vector>

#include "base/fault.hpp"
#include "base/packet_socket.hpp"

namespace ringload::inline v0::detail {

inline constexpr std::size_t name_bytes_max = 255;
inline constexpr std::size_t packet_bytes_max = 512;
inline constexpr std::uint64_t description_bytes_max = std::uint64_t{1} << 30;

struct keep_request {
  std::string name;
  keep_action action = keep_action::attach;
  kept_version current = {};  // Used by attach_next only.
};

// `version` is the answer to read_version, and has no descriptors.
enum class keep_answer : std::uint8_t { attached, version, no_such_model, not_admitted, malformed };

struct keep_reply {
  keep_answer answer = keep_answer::attached;
  kept_version version = {};
  std::uint64_t host_regions = 0;
  std::uint64_t device_regions = 0;
};

std::vector<std::byte> pack(const keep_request& request);
std::vector<std::byte> pack(const keep_reply& reply);
result<keep_request> unpack_request(std::span<const std::byte> packet);
result<keep_reply> unpack_reply(std::span<const std::byte> packet);

}  // namespace ringload::inline v0::detail
