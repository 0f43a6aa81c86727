// SPDX-License-Identifier: Apache-2.0
#pragma once

// The certificates that TLS connections trust. Shared by all connections of a client.

#include <boost/asio/ssl/context.hpp>
#include <mutex>

#include "remote/http/settings.hpp"

namespace ringload::inline v0::remote_http {

class tls_settings {
 public:
  tls_settings() : context_(boost::asio::ssl::context::tls_client) {}

  // Returns a context that trusts remote_options::ca_file. Does not read the system's certificates.
  boost::asio::ssl::context& configured() noexcept { return context_; }
  // Returns a context that also trusts the system's certificates. The first call reads the
  // certificates, which takes tens of milliseconds. Thread-safe.
  boost::asio::ssl::context& loaded() const;

 private:
  mutable boost::asio::ssl::context context_;
  mutable std::once_flag read_;
};

}  // namespace ringload::inline v0::remote_http
