// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http/message.hpp>
#include <boost/beast/http/string_body.hpp>
#include <boost/json/value.hpp>
#include <cstdint>
#include <string>
#include <vector>

namespace ringload::testing {

namespace http = boost::beast::http;
using request = http::request<http::string_body>;
using response = http::response<http::string_body>;

request make_request(http::verb method, const std::string& target, std::string json_body = {});

/// One connection to the server. Blocks.
class client {
 public:
  explicit client(std::uint16_t port);

  response ask(const request& what);
  response get(const std::string& target, const std::string& accept = {});

  /// Sends all requests at once, so that the server answers one right after the other.
  std::vector<response> ask_all(const std::vector<request>& what);

  /// Sends these bytes, and returns all received bytes when the server has closed the connection.
  std::string ask_raw(const std::string& bytes);

 private:
  response read(bool head_only);

  boost::asio::io_context context_;
  boost::asio::ip::tcp::socket socket_;
  boost::beast::flat_buffer buffer_;
};

boost::json::value json_of(const response& from);

}  // namespace ringload::testing
