// SPDX-License-Identifier: Apache-2.0
#pragma once

// One client: reads its requests, one after the other, and sends the answers.

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
  bool between_requests = true;  // Idle: may be closed now.
  bool last_answer = false;      // Close after the current reply.
};

/// Returns when the client disconnects or times out, or the server stops. Network errors are not
/// thrown.
boost::asio::awaitable<void> serve(const services& with, std::shared_ptr<connection> client);

}  // namespace ringload::server
