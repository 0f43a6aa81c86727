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

constexpr std::size_t drain_bytes = 4096;
constexpr std::size_t drain_pieces_max = 256;
constexpr auto drain_time = std::chrono::seconds(1);

using parser = http::request_parser<http::string_body>;

// Returns the response to a request that cannot be read. Returns an empty optional if the client
// has disconnected or has exceeded the time limit.
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

// Receives one request, within the time limit `settings::timeout`.
asio::awaitable<beast::error_code> read_request(const services& context, connection& client,
                                                beast::flat_buffer& buffer, parser& into) {
  beast::error_code failed;
  into.header_limit(header_bytes_max);
  into.body_limit(body_bytes_max);
  client.stream.expires_after(context.how.timeout);
  co_await http::async_read_header(client.stream, buffer, into,
                                   asio::redirect_error(asio::use_awaitable, failed));
  if (failed) co_return failed;
  client.between_requests = false;
  if (beast::iequals(into.get()[http::field::expect], "100-continue")) {
    http::response<http::empty_body> continue_head(http::status::continue_, 11);
    co_await http::async_write(client.stream, continue_head,
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
asio::const_buffer piece_of(const tensor& source, byte_range range, std::vector<std::byte>& buffer,
                            beast::error_code& failed) {
  const std::uint64_t size = range.end - range.begin;
  try {
    return asio::buffer(tool::host_address_of(source, range.begin, size, buffer), size);
  } catch (const error& problem) {
    // The head was already sent, so the only way to report the error to the client is to close the
    // connection.
    tool::complain("model-server", std::string("error: ") + problem.what());
    failed = problem.code();
    return {};
  }
}

asio::awaitable<beast::error_code> send_bytes(const services& context, connection& client,
                                              tensor source, byte_range range) {
  beast::error_code failed;
  std::vector<std::byte> buffer;
  // The bytes are sent in pieces. Each piece has its own time limit, so that a large tensor does
  // not exceed the limit.
  for (std::uint64_t offset = range.begin; offset < range.end;) {
    const std::uint64_t end = std::min<std::uint64_t>(offset + piece_bytes, range.end);
    const asio::const_buffer piece = piece_of(source, {offset, end}, buffer, failed);
    if (failed) break;
    client.stream.expires_after(context.how.timeout);
    co_await asio::async_write(client.stream, piece,
                               asio::redirect_error(asio::use_awaitable, failed));
    if (failed) break;
    context.counted.tensor_bytes_sent += end - offset;
    offset = end;
  }
  co_return failed;
}

// Sends an event "progress" in intervals of `event_every`, and a last event "end" when the load has
// ended.
asio::awaitable<void> send_events(const services& context, connection& client,
                                  std::shared_ptr<entry> model_entry) {
  beast::error_code failed;
  asio::steady_timer tick(client.stream.get_executor());
  bool more = true;
  while (more) {
    more = model_entry->latest->under_way();
    const std::string text = std::string(more ? "event: progress\n" : "event: end\n") +
                             "data: " + json_text(describe(*model_entry)) + "\n";
    client.stream.expires_after(context.how.timeout);
    co_await asio::async_write(client.stream, asio::buffer(text),
                               asio::redirect_error(asio::use_awaitable, failed));
    if (failed || !more) co_return;
    tick.expires_after(event_every);
    co_await tick.async_wait(asio::redirect_error(asio::use_awaitable, failed));
  }
}

struct send_options {
  bool head_only = false;
  bool keep_alive = false;
  bool is_http_1_0 = false;  // True if the request has the version HTTP/1.0.
};

// Sends a reply. Returns true if the connection can be used for another request.
asio::awaitable<bool> send(const services& context, connection& client, reply outgoing,
                           send_options options) {
  beast::error_code failed;
  const bool no_content = outgoing.head.result() == http::status::no_content;
  outgoing.head.set(http::field::server, "model-server");
  // A stream of events has no known length, so it ends with the connection.
  outgoing.head.keep_alive(options.keep_alive && !outgoing.events);
  // A client of HTTP/1.0 closes the connection without this header.
  if (options.is_http_1_0 && outgoing.head.keep_alive()) {
    outgoing.head.set(http::field::connection, "keep-alive");
  }
  if (outgoing.bytes) {
    outgoing.head.content_length(outgoing.range.end - outgoing.range.begin);
  } else if (!outgoing.events && !no_content) {
    outgoing.head.content_length(outgoing.head.body().size());
  }
  if (options.head_only) outgoing.head.body().clear();
  ++context.counted.answers[outgoing.head.result_int()];

  client.stream.expires_after(context.how.timeout);
  http::response_serializer<http::string_body> whole(outgoing.head);
  co_await http::async_write(client.stream, whole,
                             asio::redirect_error(asio::use_awaitable, failed));
  if (!failed && outgoing.bytes && !options.head_only) {
    auto outcome = co_await send_bytes(context, client, outgoing.bytes, outgoing.range);
    failed = outcome;
  }
  if (!failed && outgoing.events && !options.head_only) {
    co_await send_events(context, client, outgoing.events);
  }
  co_return !failed && outgoing.head.keep_alive();
}

// Shuts down the sending side, and waits briefly until the client closes the connection. If the
// server closed the connection while the client still sends a large body, the client would not
// receive the reply.
asio::awaitable<void> close_gracefully(connection& client) {
  beast::error_code failed;
  client.stream.socket().shutdown(asio::ip::tcp::socket::shutdown_send, failed);
  std::string rest(drain_bytes, '\0');
  client.stream.expires_after(drain_time);
  for (std::size_t pieces = 0; pieces < drain_pieces_max && !failed; ++pieces) {
    co_await client.stream.async_read_some(asio::buffer(rest),
                                           asio::redirect_error(asio::use_awaitable, failed));
  }
  client.stream.close();
}

}  // namespace

asio::awaitable<void> serve(const services& context, std::shared_ptr<connection> client) {
  beast::flat_buffer buffer(header_bytes_max + body_bytes_max);
  bool more = true;
  while (more) {
    client->between_requests = true;
    parser read;
    auto failed = co_await read_request(context, *client, buffer, read);
    reply outgoing;
    send_options options;
    if (failed) {
      auto refusal = answer_to(failed);
      if (!refusal) break;
      outgoing.head = std::move(*refusal);
    } else {
      options.head_only = read.get().method() == http::verb::head;
      options.keep_alive = read.get().keep_alive();
      options.is_http_1_0 = read.get().version() < 11;
      auto answered = co_await answer(context, read.get());
      outgoing = std::move(answered);
    }
    options.keep_alive = options.keep_alive && !client->last_answer;
    auto sent = co_await send(context, *client, std::move(outgoing), options);
    more = sent && !client->last_answer;
  }
  client->between_requests = true;
  co_await close_gracefully(*client);
}

}  // namespace ringload::server
