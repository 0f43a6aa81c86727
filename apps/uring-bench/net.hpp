// SPDX-License-Identifier: Apache-2.0
#pragma once

// The result of uring-bench net, and its conclusion. Pure functions.

#include <cstdint>
#include <string>
#include <vector>

#include "repeat_runs.hpp"
#include "requests.hpp"

namespace ringload::bench {

/// Reads of one length on a number of connections. Each connection requests the next range while it
/// receives the current range.
struct net_cell {
  std::uint32_t connections = 0;
  std::uint64_t chunk_bytes = 0;

  std::uint64_t bytes_in_flight() const noexcept { return connections * chunk_bytes; }
};

struct measured_net_cell {
  net_cell config;
  repeated measurements;  // `reads` counts requests, and `resubmits` counts repeated requests.
};

enum class net_wall : std::uint8_t {
  processor,    // The processor of this machine: one thread receives and decrypts.
  connections,  // The rate of one connection. More connections may increase the rate.
  beyond,       // The limit is in the network or in the server.
  unknown,      // No cell has at most half of the largest number of connections.
};

struct net_findings {
  std::string target;
  std::string file;  // The file that was read, without credentials.
  std::uint64_t file_bytes = 0;
  // The time for name resolution, connection, TLS and the first response.
  double opening_seconds = 0;
  double request_seconds = 0;  // The shortest time of a request for one byte on an open connection.
  std::vector<measured_net_cell> cells;

  /// Returns the cell with the highest median rate. At least one cell must exist.
  const measured_net_cell& best() const;
  /// Returns the cell with the fewest bytes in flight that reaches 97 % of the best rate.
  const measured_net_cell& chosen() const;
  net_wall wall() const;
};

std::vector<net_cell> cells_of(const net_request& request);

/// Returns "processor", "connections", "beyond" or "unknown".
std::string_view name(net_wall wall) noexcept;

std::string net_text(const net_findings& all);
void append_net(std::string& text, const net_findings& all);

}  // namespace ringload::bench
