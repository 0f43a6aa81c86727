// SPDX-License-Identifier: Apache-2.0
#pragma once

// The result of uring-bench net, and what follows from it. Pure.

#include <cstdint>
#include <string>
#include <vector>

#include "repeat_runs.hpp"
#include "requests.hpp"

namespace ringload::bench {

/// Reads of one length, on so many connections: on each one, while the next is asked for.
struct net_cell {
  std::uint32_t connections = 0;
  std::uint64_t chunk_bytes = 0;

  std::uint64_t bytes_in_flight() const noexcept { return connections * chunk_bytes; }
};

struct measured_net_cell {
  net_cell what;
  repeated found;  // `reads` are requests, `resubmits` those that repeated one.
};

enum class net_wall : std::uint8_t {
  processor,    // Of this machine: one thread receives and decrypts.
  connections,  // More of them gave more, up to the most that were tried.
  beyond,       // The network, or the server.
};

struct net_findings {
  std::string target;
  std::string file;  // That was read, without credentials.
  std::uint64_t file_bytes = 0;
  double opening_seconds = 0;  // Resolving, connecting, TLS and the first answer.
  double request_seconds = 0;  // Of a request of one byte on a kept connection: the shortest.
  std::vector<measured_net_cell> cells;

  /// The cell of the highest median rate. There is one at least.
  const measured_net_cell& best() const;
  /// The one with the least in flight that has 97 % of that rate.
  const measured_net_cell& chosen() const;
  net_wall wall() const;
};

/// The cells that a request stands for.
std::vector<net_cell> cells_of(const net_request& request);

/// "processor", "connections", "beyond"
std::string_view name(net_wall what) noexcept;

std::string net_text(const net_findings& all);
void append_net(std::string& to, const net_findings& all);

}  // namespace ringload::bench
