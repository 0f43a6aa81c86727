// SPDX-License-Identifier: Apache-2.0
#pragma once

// Serves metrics for Prometheus over HTTP, in a thread of its own.

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

namespace ringload::tool {

class metrics_server {
 public:
  /// Starts the server at `address`, such as "127.0.0.1:9464" or "[::1]:0". `text` returns the
  /// metrics for the path /metrics. `is_ready` decides whether the path /ready returns 200 or 503.
  /// Both functions are called in the thread of the server. Throws `ringload::error`.
  metrics_server(const std::string& address, std::function<std::string()> text,
                 std::function<bool()> is_ready);
  metrics_server(const metrics_server&) = delete;
  metrics_server& operator=(const metrics_server&) = delete;
  ~metrics_server();

  /// Returns the address of the metrics, such as "http://127.0.0.1:9464/metrics".
  std::string url() const;

 private:
  struct state;
  std::unique_ptr<state> state_;
};

}  // namespace ringload::tool
