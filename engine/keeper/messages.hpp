// SPDX-License-Identifier: Apache-2.0
#pragma once

// The protocol between a keeper and its clients over a Unix SOCK_SEQPACKET socket:
//
//   client                          keeper
//     request(name)      -------->
//                        <--------    reply(answer, version), and with `attached` the descriptors
//                                     of the packed description and of each memory region
//     ... keeps the connection open while it uses the model ...
//     closes, or ends    -------->    decrements the count
//
// One packet in each direction, so neither side can make the other wait in the middle of a packet.

#include <cstddef>
#include <cstdint>
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
};

enum class keep_answer : std::uint8_t { attached, no_such_model, not_admitted, malformed };

struct keep_reply {
  keep_answer answer = keep_answer::attached;
  std::uint64_t version = 0;  // Version of the model: 1 for the first model of that name.
  std::uint64_t regions = 0;
};

std::vector<std::byte> packed(const keep_request& request);
std::vector<std::byte> packed(const keep_reply& reply);
result<keep_request> unpacked_request(std::span<const std::byte> from);
result<keep_reply> unpacked_reply(std::span<const std::byte> from);

}  // namespace ringload::inline v0::detail
