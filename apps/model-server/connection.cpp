// SPDX-License-Identifier: Apache-2.0
#include "connection.hpp"

#include <algorithm>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http/empty_body.hpp>
#include <boost/beast/http/error.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/read.hpp>
#include <boost/beast/http/serializer.hpp>
#include <boost/beast/http/write.hpp>
#include <cstddef>
#include <optional>
#include <ringload/error.hpp>
#include <string>
#include <vector>

#include "device.hpp"
#include "output.hpp"

namespace ringload::server {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = beast::http;

namespace {

constexpr std::size_t leave_bytes = 4096;
constexpr std::size_t leave_pieces_max = 256;
constexpr auto leave_time = std::chrono::seconds(1);

using parser = http::request_parser<http::string_body>;

// Returns the response to a request that cannot be read. Returns an empty optional if the client
// has disconnected or has exceeded its time.
std::optional<response> answer_to(const beast::error_code& failed) {
  if (failed == http::error::body_limit) {
    return problem(http::status::payload_too_large, "the body is too large");
  }
  if (failed == http::error::header_limit) {
    return problem(http::status::request_header_fields_too_large, "the header is too large");
  }
  const bool malformed = failed.category() == make_error_code(http::error::bad_method).category();
  if (!malformed || failed == http::error::end_of_stream ||
      failed == http::error::partial_message) {
    return std::nullopt;
  }
  return problem(http::status::bad_request, "this is not HTTP");
}

// Receives one request. The time limit `how.timeout` covers the whole request.
asio::awaitable<beast::error_code> read_request(const services& with, connection& client,
                                                beast::flat_buffer& buffer, parser& into) {
  beast::error_code failed;
  into.header_limit(header_bytes_max);
  into.body_limit(body_bytes_max);
  client.stream.expires_after(with.how.timeout);
  co_await http::async_read_header(client.stream, buffer, into,
                                   asio::redirect_error(asio::use_awaitable, failed));
  if (failed) co_return failed;
  client.between_requests = false;
  if (beast::iequals(into.get()[http::field::expect], "100-continue")) {
    http::response<http::empty_body> go_on(http::status::continue_, 11);
    co_await http::async_write(client.stream, go_on,
                               asio::redirect_error(asio::use_awaitable, failed));
    if (failed) co_return failed;
  }
  if (!into.is_done()) {
    co_await http::async_read(client.stream, buffer, into,
                              asio::redirect_error(asio::use_awaitable, failed));
  }
  co_return failed;
}

// Returns bytes of a tensor in host memory. Bytes in GPU memory are first copied to `room`, which
// blocks the event loop for a short time.
asio::const_buffer piece_of(const tensor& of, byte_range range, std::vector<std::byte>& room,
                            beast::error_code& failed) {
  const std::uint64_t size = range.end - range.begin;
  try {
    return asio::buffer(tool::host_address_of(of, range.begin, size, room), size);
  } catch (const error& problem) {
    // The head is already sent, so only the end of the connection can report the error.
    tool::complain("model-server", std::string("error: ") + problem.what());
    failed = problem.code();
    return {};
  }
}

asio::awaitable<beast::error_code> send_bytes(const services& with, connection& client, tensor of,
                                              byte_range range) {
  beast::error_code failed;
  std::vector<std::byte> room;
  // The bytes are sent in pieces, each with its own timeout, so that a large tensor is not cut off.
  for (std::uint64_t at = range.begin; at < range.end;) {
    const std::uint64_t end = std::min<std::uint64_t>(at + piece_bytes, range.end);
    const asio::const_buffer piece = piece_of(of, {at, end}, room, failed);
    if (failed) break;
    client.stream.expires_after(with.how.timeout);
    co_await asio::async_write(client.stream, piece,
                               asio::redirect_error(asio::use_awaitable, failed));
    if (failed) break;
    with.counted.tensor_bytes_sent += end - at;
    at = end;
  }
  co_return failed;
}

// Sends an event for each tick, and a last event "end" when the state is final.
asio::awaitable<void> send_events(const services& with, connection& client,
                                  std::shared_ptr<entry> of) {
  beast::error_code failed;
  asio::steady_timer tick(client.stream.get_executor());
  bool more = true;
  while (more) {
    more = of->latest->under_way();
    const std::string text = std::string(more ? "event: progress\n" : "event: end\n") +
                             "data: " + json_text(describe(*of)) + "\n";
    client.stream.expires_after(with.how.timeout);
    co_await asio::async_write(client.stream, asio::buffer(text),
                               asio::redirect_error(asio::use_awaitable, failed));
    if (failed || !more) co_return;
    tick.expires_after(event_every);
    co_await tick.async_wait(asio::redirect_error(asio::use_awaitable, failed));
  }
}

// Returns true if the connection can be used for another request.
asio::awaitable<bool> send(const services& with, connection& client, reply what, bool head_only,
                           bool keep_alive) {
  beast::error_code failed;
  const bool no_content = what.head.result() == http::status::no_content;
  what.head.set(http::field::server, "model-server");
  // A stream of events has no known length, so it ends with the connection.
  what.head.keep_alive(keep_alive && !what.events);
  if (what.bytes) {
    what.head.content_length(what.range.end - what.range.begin);
  } else if (!what.events && !no_content) {
    what.head.content_length(what.head.body().size());
  }
  if (head_only) what.head.body().clear();
  ++with.counted.answers[what.head.result_int()];

  client.stream.expires_after(with.how.timeout);
  http::response_serializer<http::string_body> whole(what.head);
  co_await http::async_write(client.stream, whole,
                             asio::redirect_error(asio::use_awaitable, failed));
  if (!failed && what.bytes && !head_only) {
    auto outcome = co_await send_bytes(with, client, what.bytes, what.range);
    failed = outcome;
  }
  if (!failed && what.events && !head_only) {
    co_await send_events(with, client, what.events);
  }
  co_return !failed && what.head.keep_alive();
}

// Shuts down the sending side and waits briefly for the client to close. If this side closed first
// while the client still sends a large body, the reply would be lost.
asio::awaitable<void> take_leave(connection& client) {
  beast::error_code failed;
  client.stream.socket().shutdown(asio::ip::tcp::socket::shutdown_send, failed);
  std::string rest(leave_bytes, '\0');
  client.stream.expires_after(leave_time);
  for (std::size_t pieces = 0; pieces < leave_pieces_max && !failed; ++pieces) {
    co_await client.stream.async_read_some(asio::buffer(rest),
                                           asio::redirect_error(asio::use_awaitable, failed));
  }
  client.stream.close();
}

}  // namespace

asio::awaitable<void> serve(const services& with, std::shared_ptr<connection> client) {
  beast::flat_buffer buffer(header_bytes_max + body_bytes_max);
  bool more = true;
  while (more) {
    client->between_requests = true;
    parser read;
    auto failed = co_await read_request(with, *client, buffer, read);
    reply what;
    bool keep_alive = false;
    bool head_only = false;
    if (failed) {
      auto told = answer_to(failed);
      if (!told) break;
      what.head = std::move(*told);
    } else {
      head_only = read.get().method() == http::verb::head;
      keep_alive = read.get().keep_alive();
      auto made = co_await answer(with, read.get());
      what = std::move(made);
    }
    keep_alive = keep_alive && !client->last_answer;
    auto sent = co_await send(with, *client, std::move(what), head_only, keep_alive);
    more = sent && !client->last_answer;
  }
  client->between_requests = true;
  co_await take_leave(*client);
}

}  // namespace ringload::server
