// SPDX-License-Identifier: Apache-2.0
#include "client.hpp"

#include <boost/asio/read.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/read.hpp>
#include <boost/beast/http/write.hpp>
#include <boost/json/parse.hpp>
#include <limits>
#include <sstream>

namespace ringload::testing {

namespace asio = boost::asio;

request make_request(http::verb method, const std::string& target, std::string json_body) {
  request out(method, target, 11);
  out.set(http::field::host, "localhost");
  if (!json_body.empty()) out.set(http::field::content_type, "application/json");
  out.body() = std::move(json_body);
  out.prepare_payload();
  return out;
}

client::client(std::uint16_t port) : socket_(context_) {
  socket_.connect({asio::ip::address_v4::loopback(), port});
}

response client::ask(const request& what) {
  http::write(socket_, what);
  return read(what.method() == http::verb::head);
}

response client::get(const std::string& target, const std::string& accept) {
  request what = make_request(http::verb::get, target);
  if (!accept.empty()) what.set(http::field::accept, accept);
  return ask(what);
}

std::vector<response> client::ask_all(const std::vector<request>& what) {
  std::ostringstream text;
  for (const request& each : what) text << each;
  asio::write(socket_, asio::buffer(text.str()));
  std::vector<response> out;
  for (const request& each : what) out.push_back(read(each.method() == http::verb::head));
  return out;
}

std::string client::ask_raw(const std::string& bytes) {
  boost::system::error_code ended;
  // The server may stop reading before it has received all bytes.
  asio::write(socket_, asio::buffer(bytes), ended);
  std::string out;
  asio::read(socket_, asio::dynamic_buffer(out), ended);
  return out;
}

response client::read(bool head_only) {
  http::response_parser<http::string_body> parser;
  parser.body_limit(std::numeric_limits<std::uint64_t>::max());
  parser.skip(head_only);
  http::read(socket_, buffer_, parser);
  return parser.release();
}

boost::json::value json_of(const response& from) { return boost::json::parse(from.body()); }

}  // namespace ringload::testing
