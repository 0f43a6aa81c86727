// SPDX-License-Identifier: Apache-2.0
#pragma once

// Reads the requests of a client, one after another, and sends the answers.

#include <boost/asio/awaitable.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/beast/core/tcp_stream.hpp>
#include <memory>
#include <utility>

#include "answer.hpp"

namespace ringload::server {

struct connection {
  explicit connection(boost::asio::ip::tcp::socket socket) : stream(std::move(socket)) {}

  boost::beast::tcp_stream stream;
  bool between_requests = true;  // True if no request is being processed.
  bool last_answer = false;      // True if the connection must be closed after the current reply.
};

/// Serves one client. Returns when the client disconnects or times out, or when the server stops.
/// Network errors are not thrown.
boost::asio::awaitable<void> serve(const services& context, std::shared_ptr<connection> client);

}  // namespace ringload::server
