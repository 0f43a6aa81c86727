// SPDX-License-Identifier: Apache-2.0
#pragma once

// Whom TLS trusts.

#include <boost/asio/ssl/context.hpp>
#include <mutex>

#include "remote/http/settings.hpp"

namespace ringload::inline v0::remote_http {

class tls_settings {
 public:
  tls_settings() : context_(boost::asio::ssl::context::tls_client) {}

  // Trusts only what the program has named, until it is asked for.
  boost::asio::ssl::context& own() noexcept { return context_; }
  // Trusts what the system does as well, which takes tens of milliseconds to read. Any thread.
  boost::asio::ssl::context& whole() const;

 private:
  mutable boost::asio::ssl::context context_;
  mutable std::once_flag read_;
};

}  // namespace ringload::inline v0::remote_http
