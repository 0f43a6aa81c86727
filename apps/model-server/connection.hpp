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
  bool between_requests = true;  // Nothing would be lost if it ended now.
  bool last_answer = false;      // Ends after the answer that is under way.
};

/// Returns when the client has gone, was too slow, or shall go. Throws nothing of the network.
boost::asio::awaitable<void> serve(const services& with, std::shared_ptr<connection> client);

}  // namespace ringload::server
