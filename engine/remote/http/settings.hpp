// SPDX-License-Identifier: Apache-2.0
#pragma once

// The settings of an HTTP client. remote() checks remote_options and converts the options to
// settings. A setting without a comment has the meaning of the option with the same name.

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/fault.hpp"
#include "remote/http/no_proxy.hpp"
#include "remote/http/retry.hpp"
#include "remote/http/url.hpp"

namespace ringload::inline v0::remote_http {

class tls_settings;  // See tls_settings.hpp.

struct client_settings {
  // Maximum number of connections of one network thread to one origin.
  std::uint32_t connections = 16;
  std::uint32_t threads = 1;
  std::uint64_t chunk_bytes = std::uint64_t{1} << 20;
  std::chrono::milliseconds connect_time_max{10'000};
  std::chrono::milliseconds silence_time_max{30'000};
  std::chrono::milliseconds stall_time_max{60'000};
  std::chrono::milliseconds request_time_max{600'000};
  // A connection is closed after this idle time. Most servers keep an idle connection open for
  // longer, so a request rarely uses a connection that the server has closed.
  std::chrono::milliseconds idle_time_max{20'000};
  retry_rules retries;
  std::uint32_t redirects_max = 8;
  bool private_redirects = false;
  bool offline = false;
  std::optional<http_url> proxy;
  std::vector<std::string> no_proxy;  // Hosts that are contacted without the proxy.
  std::string proxy_authorization;    // Value of the header Proxy-Authorization. May be empty.
  std::vector<std::string> hosts;     // In lower case. Empty if all hosts are allowed.
  std::uint64_t whole_bytes_max = std::uint64_t{64} << 20;
  std::shared_ptr<const tls_settings> tls;

  // Returns the proxy for the host. Returns null if the host is contacted directly.
  const http_url* proxy_for(const std::string& host, std::uint16_t port) const {
    return proxy && !is_exempt(no_proxy, host, port) ? &*proxy : nullptr;
  }
};

// Returns the header fields for the proxy alone. Empty, or ends with a line break.
inline std::string proxy_fields(const client_settings& settings) {
  if (settings.proxy_authorization.empty()) return {};
  return "Proxy-Authorization: " + settings.proxy_authorization + "\r\n";
}

// Returns settings that trust the system's certificates. If `ca_file` is not empty, the
// certificates of `ca_file` are trusted as well.
result<std::shared_ptr<const tls_settings>> make_tls_settings(const std::string& ca_file);

}  // namespace ringload::inline v0::remote_http
