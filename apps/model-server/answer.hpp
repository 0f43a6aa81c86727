// SPDX-License-Identifier: Apache-2.0
#pragma once

// Turns a request into a reply. No socket I/O.

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

/// What replies are made from. Outlives all connections.
struct services {
  const settings& how;
  const allowed_sources& allowed;
  const allowed_targets& targets;
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

/// The reply to any request. May wait for a tensor to be loaded, at most `how.timeout`, or for a
/// model to be saved. `asked`
/// must outlive the wait.
boost::asio::awaitable<reply> answer(const services& with, const request& asked);

}  // namespace ringload::server
