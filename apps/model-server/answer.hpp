// SPDX-License-Identifier: Apache-2.0
#pragma once

// Turns a request into a reply, without any I/O on the socket.

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
#include "saving.hpp"
#include "settings.hpp"
#include "target.hpp"

namespace ringload::server {

using request = boost::beast::http::request<boost::beast::http::string_body>;
using response = boost::beast::http::response<boost::beast::http::string_body>;

/// The objects that the replies to all requests use. Must outlive all connections.
struct services {
  const settings& how;
  const allowed_sources& allowed;
  const allowed_targets& targets;
  models& loads;
  counters& counted;
};

struct reply {
  reply() = default;

  response head;  // The body is sent unless one of the next members is set.
  tensor bytes;   // If set, these bytes of the tensor are sent after the head.
  byte_range range;
  // If set, the states of this model are sent after the head, as they change.
  std::shared_ptr<entry> events;
};

/// Returns a response whose body is a JSON object with the member "error".
response problem(boost::beast::http::status status, std::string_view text);

/// Returns the reply to a request. If the request is for a tensor, waits up to `settings::timeout`.
/// If the request is for a save, waits until the model is saved. Both arguments must outlive the
/// coroutine.
boost::asio::awaitable<reply> answer(const services& context, const request& asked);

}  // namespace ringload::server
