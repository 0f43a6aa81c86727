// SPDX-License-Identifier: Apache-2.0
#pragma once

// An exchange is one request on one connection, and the response. http_transfer creates exchanges.
// Only the network thread may use an exchange.

#include <boost/asio/any_completion_handler.hpp>
#include <boost/asio/awaitable.hpp>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>

#include "base/fault.hpp"
#include "remote/http/response.hpp"

namespace ringload::inline v0::remote_http {

class host_pool;

// Receives a body in pieces. The connection waits until the sink has memory for the next piece.
class body_sink {
 public:
  virtual ~body_sink() = default;

  // Returns the memory for the next bytes. Waits until a read needs the bytes, or until wake() is
  // called. Returns an empty optional if the sink accepts no more bytes: see too_long(). Returns an
  // empty span if the rest of the body is not needed. The connection may then be closed.
  virtual boost::asio::awaitable<std::optional<std::span<std::byte>>> next_buffer(
      host_pool& pool) = 0;
  // Accepts `bytes` bytes that were written to the memory of next_buffer(). Returns the number of
  // bytes to add to exchange.arrived.
  virtual std::uint64_t take(std::size_t bytes) = 0;
  // Returns the fault for a body that is longer than the sink accepts.
  virtual fault too_long() const = 0;
  virtual void wake() noexcept = 0;
};

// Destination of the body of a response.
struct body_target {
  enum class kind : std::uint8_t {
    drop,    // Discards the body. If the body is long, closes the connection instead.
    memory,  // Fills `into`. The body must have the size of `into`.
    text,    // Appends the body to `text`, which then has at most text_bytes_max bytes.
    stream,  // Passes the body to `sink`.
  };
  kind destination = kind::drop;
  std::span<std::byte> into = {};
  std::string* text = nullptr;
  std::uint64_t text_bytes_max = 0;
  body_sink* sink = nullptr;
};

struct exchange_failure {
  fault reason;
  bool final = false;           // True if a retry would fail in the same way.
  bool silent = false;          // True if a time limit was reached.
  bool is_unconnected = false;  // True if no connection to the server could be opened.
};

class http_connection;  // See http_connection.hpp.

struct http_exchange {
  // The request.
  std::string request;  // Complete head of the request.
  std::span<const std::byte> body = {};
  bool head = false;  // True for a HEAD request, whose response has no body.
  bool awaited = false;
  // Called when the head of the response is received. Returns the destination of the body.
  std::function<body_target(const response_head&)> choose_target;

  // The outcome. Valid when `done` is called.
  std::optional<exchange_failure> failure;
  response_head response;     // Status 0 if no response was received.
  std::uint64_t arrived = 0;  // Number of body bytes that were received into their destination.
  bool private_peer = false;  // True if the server has a private address: see is_private().

  // Used by the pool and its connections. `done` is an optional, because the assignment of a
  // handler recurses infinitely in Boost 1.81.
  std::optional<boost::asio::any_completion_handler<void()>> done;
  // Null if the exchange waits for a connection or has ended.
  http_connection* connection = nullptr;
  // True if the exchange was cancelled while a connection was sending or receiving.
  bool cancelled = false;
  // True if the request is sent a second time, because the server had closed the first connection.
  bool repeated = false;
};

}  // namespace ringload::inline v0::remote_http
