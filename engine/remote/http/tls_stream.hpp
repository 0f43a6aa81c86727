// SPDX-License-Identifier: Apache-2.0
#pragma once

// The byte stream of one connection, and the error texts of its failures. Only http_connection.hpp
// may include this header, because Beast takes long to compile.

#include <boost/asio/error.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/ssl.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/beast/core.hpp>
#include <boost/beast/http.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "remote/http/http_exchange.hpp"

namespace ringload::inline v0::remote_http {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = boost::beast::http;
namespace ssl = boost::asio::ssl;
using boost::system::error_code;
using tcp = asio::ip::tcp;

inline exchange_failure retryable_failure(std::string cause) {
  return {{errc::remote_failed, "", std::move(cause)}, false};
}

inline exchange_failure malformed_failure(std::string cause) {
  return {{errc::malformed_answer, "", std::move(cause)}, true};
}

inline exchange_failure final_failure(std::string cause) {
  return {{errc::remote_failed, "", std::move(cause)}, true};
}

inline exchange_failure timeout_failure(std::string cause) {
  exchange_failure out = retryable_failure(std::move(cause));
  out.silent = true;
  return out;
}

inline exchange_failure failure_of(const error_code& code, const char* activity) {
  if (code == beast::error::timeout) {
    return timeout_failure(std::string("the server was silent for too long, ") + activity);
  }
  const bool ended = code == asio::error::eof || code == http::error::end_of_stream ||
                     code == http::error::partial_message || code == ssl::error::stream_truncated;
  if (ended) return retryable_failure(std::string("the server ended the connection, ") + activity);
  if (code == http::error::buffer_overflow) {
    return malformed_failure(
        "the server's response has a chunk header or trailers that are too long");
  }
  if (code.category() == http::make_error_code(http::error::bad_field).category()) {
    return malformed_failure("the server's response is not HTTP: " + code.message());
  }
  exchange_failure out = retryable_failure(std::string(activity) + ": " + code.message());
  out.final = code == asio::error::host_not_found;
  return out;
}

// A plain or TLS connection as an Asio stream.
class tls_stream {
 public:
  using executor_type = beast::tcp_stream::executor_type;

  explicit tls_stream(asio::io_context& loop) : tcp_(loop) {}

  executor_type get_executor() noexcept { return tcp_.get_executor(); }
  beast::tcp_stream& lowest() noexcept { return tcp_; }
  ssl::stream<beast::tcp_stream&>& encrypt(ssl::context& context) {
    return tls_.emplace(tcp_, context);
  }

  template <class Buffers, class Token>
  auto async_read_some(const Buffers& into, Token&& token) {
    if (tls_) return tls_->async_read_some(into, std::forward<Token>(token));
    return tcp_.async_read_some(into, std::forward<Token>(token));
  }
  template <class Buffers, class Token>
  auto async_write_some(const Buffers& from, Token&& token) {
    if (tls_) return tls_->async_write_some(from, std::forward<Token>(token));
    return tcp_.async_write_some(from, std::forward<Token>(token));
  }

 private:
  beast::tcp_stream tcp_;
  std::optional<ssl::stream<beast::tcp_stream&>> tls_;
};

// State of a name resolution. The caller waits for `timer`, because getaddrinfo() cannot be
// cancelled.
struct name_resolution {
  explicit name_resolution(asio::io_context& loop) : resolver(loop), timer(loop) {}

  tcp::resolver resolver;
  asio::steady_timer timer;
  bool is_resolved = false;
  error_code failed;
  std::vector<tcp::endpoint> found;
};

}  // namespace ringload::inline v0::remote_http
