// SPDX-License-Identifier: Apache-2.0
#pragma once

// From a request to what is to be sent. Nothing here touches a socket.

#include <boost/asio/awaitable.hpp>
#include <boost/beast/http/message.hpp>
#include <boost/beast/http/status.hpp>
#include <boost/beast/http/string_body.hpp>
#include <memory>
#include <ringload/tensor.hpp>
#include <string>
#include <string_view>

#include "allowed_sources.hpp"
#include "describe.hpp"
#include "models.hpp"
#include "settings.hpp"
#include "target.hpp"

namespace ringload::server {

using request = boost::beast::http::request<boost::beast::http::string_body>;
using response = boost::beast::http::response<boost::beast::http::string_body>;

/// What the answers are made from. Outlives all connections.
struct services {
  const settings& how;
  const allowed_sources& allowed;
  models& loads;
  counters& counted;
};

struct reply {
  reply() = default;

  response head;  // Its body is what is sent, but where one of these is set.
  tensor bytes;   // These bytes of the tensor are sent after the head.
  byte_range range;
  std::shared_ptr<entry> events;  // Its states are sent after the head, as they change.
};

/// An answer in JSON with an "error".
response problem(boost::beast::http::status status, std::string_view words);

/// The answer to any request. May wait for a tensor that has not landed, `how.timeout` at most.
/// `asked` must live as long as it is awaited.
boost::asio::awaitable<reply> answer(const services& with, const request& asked);

}  // namespace ringload::server
