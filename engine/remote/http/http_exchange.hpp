// SPDX-License-Identifier: Apache-2.0
#pragma once

// One request on one connection, and its answer. Only the lane's thread may use an exchange.

#include <boost/asio/any_completion_handler.hpp>
#include <boost/asio/awaitable.hpp>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>

#include "base/fault.hpp"
#include "remote/http/answer.hpp"

namespace ringload::inline v0::remote_http {

class host_pool;

// Receives a body in pieces and limits the speed of the transfer.
class body_sink {
 public:
  virtual ~body_sink() = default;

  // Returns the memory for the next bytes. Waits while no read needs the bytes; wake() ends the
  // wait. An empty optional: the sink is full. An empty span: the rest of the body is not needed,
  // so the connection may be closed.
  virtual boost::asio::awaitable<std::optional<std::span<std::byte>>> room(host_pool& on) = 0;
  // Accepts `bytes` bytes in that memory. Returns the number to add to x.arrived.
  virtual std::uint64_t take(std::size_t bytes) = 0;
  // Fault if the body is longer than the sink accepts.
  virtual fault too_long() const = 0;
  virtual void wake() noexcept = 0;
};

// Destination of the body of an answer.
struct body_place {
  enum class kind : std::uint8_t {
    drop,    // Discards the body; a long body closes the connection instead.
    memory,  // Fills `into` exactly.
    text,    // Appends to `text`, at most text_bytes_max bytes.
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
  bool final = false;   // A retry would fail the same way.
  bool silent = false;  // A time limit was reached.
};

class link;  // A connection: see http_connection.hpp.

struct exchange {
  // The request.
  std::string request;  // Complete head of the request.
  bool head = false;    // HEAD request: the answer has no body.
  bool awaited = false;
  std::function<body_place(const answer_head&)> place;  // Called when the head is received.

  // The outcome, valid when `done` is called.
  std::optional<exchange_failure> failure;
  answer_head answer;         // Status 0: no answer.
  std::uint64_t arrived = 0;  // Body bytes that are in place.
  bool private_peer = false;  // The address of the connected server is_private().

  // Members of the pool.
  // Optional, because assigning a handler recurses in Boost 1.81.
  std::optional<boost::asio::any_completion_handler<void()>> done;
  link* on = nullptr;      // Null: the exchange waits for a connection, or has ended.
  bool cancelled = false;  // The exchange was cancelled while on a connection.
  bool repeated = false;   // The request is sent again: the server had closed the first connection.
};

}  // namespace ringload::inline v0::remote_http
