// SPDX-License-Identifier: Apache-2.0

// Sends requests on a connection and receives the responses. A server may close an idle connection
// before a request is sent. The request then returns to the front of the queue, at most once.
//
// While a connection receives a range, the connection may send the next request ahead. Otherwise
// the connection would be idle for a round trip between two requests. A request is sent ahead only
// if the number of waiting requests exceeds the number of free connections. If the connection
// breaks, the request that was sent ahead returns to the front of the queue.

#include <algorithm>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/write.hpp>
#include <cstring>
#include <utility>
#include <vector>

#include "remote/http/http_connection.hpp"

namespace ringload::inline v0::remote_http {

namespace {

// Maximum number of bytes that are received and discarded to keep a connection open.
constexpr std::size_t dropped_bytes_max = 64 << 10;
constexpr int interim_responses_max = 8;
// The body of a request is sent in pieces of at most this size. Each piece must be sent within
// silence_time_max.
constexpr std::size_t sent_bytes_max = 256 << 10;

response_head head_of(const response_parser& parser) {
  response_head out;
  out.status = parser.get().result_int();
  for (const auto& field : parser.get()) {
    std::string name(field.name_string());
    for (char& c : name) c = static_cast<char>(c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c);
    out.fields.push_back({std::move(name), std::string(field.value())});
  }
  const auto length = parser.content_length();
  if (length) out.content_length = *length;
  return out;
}

class waiting_sink {
 public:
  waiting_sink(body_sink*& current, body_sink& sink) noexcept : current_(current) {
    current_ = &sink;
  }
  waiting_sink(const waiting_sink&) = delete;
  waiting_sink& operator=(const waiting_sink&) = delete;
  ~waiting_sink() { current_ = nullptr; }

 private:
  body_sink*& current_;
};

}  // namespace

// Sends the head and the body. Each piece of the body has its own time limit, so that a slow link
// does not reach the limit.
asio::awaitable<std::optional<exchange_failure>> http_connection::send(http_exchange& exchange) {
  error_code code;
  std::span<const std::byte> rest = exchange.body;
  stream_->lowest().expires_after(settings().silence_time_max);
  co_await asio::async_write(*stream_, asio::buffer(exchange.request),
                             asio::redirect_error(asio::use_awaitable, code));
  while (!code && !rest.empty()) {
    const auto piece = rest.first(std::min(rest.size(), sent_bytes_max));
    stream_->lowest().expires_after(settings().silence_time_max);
    co_await asio::async_write(*stream_, asio::buffer(piece.data(), piece.size()),
                               asio::redirect_error(asio::use_awaitable, code));
    if (code) break;
    rest = rest.subspan(piece.size());
    pool_->note_bytes(piece.size());
  }
  if (!code) co_return std::nullopt;
  co_return failure_of(code, "sending the request");
}

asio::awaitable<bool> http_connection::perform(http_exchange& exchange) {
  std::optional<exchange_failure> unsent;
  exchange.connection = this;
  exchange.failure.reset();
  exchange.response = {};
  exchange.arrived = 0;
  exchange.private_peer = private_peer_;
  const bool may_be_stale = used_ && !exchange.repeated;
  const bool sent = ahead_ == &exchange;
  ahead_ = nullptr;
  can_send_ahead_ = false;
  if (!sent) {
    auto failed = co_await send(exchange);
    unsent = std::move(failed);
  }
  // A server may refuse a request and close the connection before it has received the body.
  const bool may_be_refused = unsent && !exchange.body.empty() && !unsent->silent;
  if (!unsent || may_be_refused) {
    auto failed = co_await receive(exchange);
    exchange.failure = std::move(failed);
  }
  const bool is_refused = may_be_refused && !exchange.failure;
  if (unsent && !is_refused) exchange.failure = unsent;
  used_ = true;
  if (exchange.cancelled) {
    exchange.failure =
        exchange_failure{{asio::error::operation_aborted, "", "the request was cancelled"}, true};
  }
  const bool spoiled = std::exchange(response_dropped_, false);
  if (exchange.failure || spoiled || unsent) shut();
  // True if the server closed the idle connection and sent no byte of a response.
  const bool must_resend = may_be_stale && exchange.failure && !exchange.failure->final &&
                           exchange.response.status == 0 && buffer_.size() == 0 &&
                           !exchange.failure->silent;
  if (must_resend) exchange.repeated = true;
  co_return !must_resend;
}

asio::awaitable<std::optional<exchange_failure>> http_connection::receive(http_exchange& exchange) {
  std::optional<response_parser> parser;
  error_code code;
  for (int i = 0; i < interim_responses_max; ++i) {
    parser.emplace();
    parser->header_limit(header_bytes_max);
    parser->body_limit(boost::none);
    if (exchange.head) parser->skip(true);
    stream_->lowest().expires_after(settings().silence_time_max);
    co_await http::async_read_header(*stream_, buffer_, *parser,
                                     asio::redirect_error(asio::use_awaitable, code));
    if (code) co_return failure_of(code, "receiving the header of the response");
    if (parser->get().result_int() >= 200) break;
  }
  exchange.response = head_of(*parser);
  if (exchange.response.status < 200)
    co_return malformed_failure("the server sends only interim responses (1xx)");
  const body_target target = exchange.choose_target(exchange.response);
  const bool empty =
      exchange.head || exchange.response.status == 204 || exchange.response.status == 304;
  const bool keeps_open = parser->keep_alive();
  std::optional<exchange_failure> failed;
  can_send_ahead_ = keeps_open && exchange.response.status == 206 &&
                    target.destination == body_target::kind::memory;
  const bool sized = exchange.response.content_length && !parser->chunked();
  if (!empty && sized && target.destination == body_target::kind::stream) {
    auto received = co_await receive_stream(exchange, *target.sink);
    failed = std::move(received);
  } else if (!empty && sized) {
    auto received = co_await receive_sized(exchange, target);
    failed = std::move(received);
  } else if (!empty) {
    auto received = co_await receive_parsed(exchange, target, *parser);
    failed = std::move(received);
  }
  // Closes the connection if the server will close it, or if received bytes belong to no response.
  if (!failed && (!keeps_open || (buffer_.size() > 0 && ahead_ == nullptr))) shut();
  co_return failed;
}

asio::awaitable<void> http_connection::send_ahead() {
  error_code code;
  ahead_ = pool_->take_to_send_ahead();
  if (ahead_ == nullptr) co_return;
  ahead_->connection = this;
  ahead_request_ = ahead_->request;  // A copy, because the exchange may end during the write.
  stream_->lowest().expires_after(settings().silence_time_max);
  // If this write fails, the next read reports the failure.
  co_await asio::async_write(*stream_, asio::buffer(ahead_request_),
                             asio::redirect_error(asio::use_awaitable, code));
}

bool http_connection::drop_sent_ahead(const http_exchange& exchange) noexcept {
  if (&exchange != ahead_) return false;
  ahead_ = nullptr;
  response_dropped_ = true;
  return true;
}

// Receives a body of known length whose destination is not a sink. A body for memory is received
// directly into the memory, except for the bytes that were received together with the head.
asio::awaitable<std::optional<exchange_failure>> http_connection::receive_sized(
    http_exchange& exchange, const body_target& target) {
  std::vector<std::byte> scratch;
  error_code code;
  const std::uint64_t left = *exchange.response.content_length;
  std::span<std::byte> buffer = target.into;
  if (target.destination == body_target::kind::memory && left != buffer.size()) {
    co_return malformed_failure("the length of the server's response is not the requested length");
  }
  if (target.destination == body_target::kind::text && left > target.text_bytes_max) {
    co_return malformed_failure("the server's response has " + grouped(left) +
                                " bytes, more than the " + grouped(target.text_bytes_max) +
                                " that are expected");
  }
  if (target.destination == body_target::kind::drop && left > dropped_bytes_max) {
    shut();
    co_return std::nullopt;
  }
  if (target.destination != body_target::kind::memory) {
    scratch.resize(static_cast<std::size_t>(left));
    buffer = scratch;
  }
  const std::size_t buffered = std::min<std::size_t>(buffer_.size(), buffer.size());
  if (buffered > 0) std::memcpy(buffer.data(), buffer_.data().data(), buffered);
  buffer_.consume(buffered);
  exchange.arrived = buffered;
  while (exchange.arrived < buffer.size()) {
    if (can_send_ahead_ && ahead_ == nullptr && !response_dropped_) co_await send_ahead();
    stream_->lowest().expires_after(settings().silence_time_max);
    const auto rest = buffer.subspan(static_cast<std::size_t>(exchange.arrived));
    const std::size_t got = co_await stream_->async_read_some(
        asio::buffer(rest.data(), rest.size()), asio::redirect_error(asio::use_awaitable, code));
    exchange.arrived += got;
    pool_->note_bytes(got);
    if (code) break;
  }
  if (target.destination == body_target::kind::text) {
    target.text->assign(reinterpret_cast<const char*>(buffer.data()),
                        static_cast<std::size_t>(exchange.arrived));
  }
  if (code && target.destination == body_target::kind::drop) {
    shut();
    co_return std::nullopt;
  }
  if (code) co_return failure_of(code, "receiving the response");
  co_return std::nullopt;
}

asio::awaitable<std::optional<std::span<std::byte>>> http_connection::next_buffer_of(
    body_sink& sink) {
  // The guard also resets sink_ if there is no memory for the coroutine of next_buffer().
  const waiting_sink until_it_has_a_buffer(sink_, sink);
  auto buffer = co_await sink.next_buffer(*pool_);
  co_return buffer;
}

// Receives a body of known length into the memory of the sink.
asio::awaitable<std::optional<exchange_failure>> http_connection::receive_stream(
    http_exchange& exchange, body_sink& sink) {
  error_code code;
  std::uint64_t left = *exchange.response.content_length;
  while (left > 0) {
    const auto buffer = co_await next_buffer_of(sink);
    if (!buffer) co_return exchange_failure{sink.too_long(), true};
    if (buffer->empty()) {
      shut();
      break;
    }
    const auto bytes = static_cast<std::size_t>(std::min<std::uint64_t>(left, buffer->size()));
    std::size_t got = std::min(buffer_.size(), bytes);
    if (got > 0) {
      std::memcpy(buffer->data(), buffer_.data().data(), got);
      buffer_.consume(got);
    } else {
      stream_->lowest().expires_after(settings().silence_time_max);
      const std::size_t came = co_await stream_->async_read_some(
          asio::buffer(buffer->data(), bytes), asio::redirect_error(asio::use_awaitable, code));
      got = came;
    }
    left -= got;
    const std::uint64_t fresh = got > 0 ? sink.take(got) : 0;
    exchange.arrived += fresh;
    pool_->note_bytes(fresh);
    if (code) co_return failure_of(code, "receiving the response");
  }
  co_return std::nullopt;
}

// Receives a chunked body, or a body whose end is the end of the connection.
asio::awaitable<std::optional<exchange_failure>> http_connection::receive_parsed(
    http_exchange& exchange, const body_target& target, response_parser& parser) {
  std::vector<std::byte> scratch(std::size_t{16} << 10);
  error_code code;
  const bool in_memory = target.destination == body_target::kind::memory;
  const bool in_stream = target.destination == body_target::kind::stream;
  while (!parser.is_done()) {
    std::span<std::byte> rest;
    if (in_memory) rest = target.into.subspan(static_cast<std::size_t>(exchange.arrived));
    if (in_stream) {
      const auto sink_buffer = co_await next_buffer_of(*target.sink);
      if (sink_buffer && sink_buffer->empty()) {
        shut();
        break;
      }
      rest = sink_buffer.value_or(rest);
    }
    const std::span<std::byte> buffer = rest.empty() ? std::span(scratch) : rest;
    parser.get().body().data = buffer.data();
    parser.get().body().size = buffer.size();
    parser.get().body().more = true;
    stream_->lowest().expires_after(settings().silence_time_max);
    co_await http::async_read_some(*stream_, buffer_, parser,
                                   asio::redirect_error(asio::use_awaitable, code));
    const std::size_t got = buffer.size() - parser.get().body().size;
    if (in_memory && rest.empty() && got > 0) {
      co_return malformed_failure("the server's response has more bytes than requested");
    }
    if (in_stream && rest.empty() && got > 0) {
      co_return exchange_failure{target.sink->too_long(), true};
    }
    const std::uint64_t fresh = in_stream && got > 0 ? target.sink->take(got) : got;
    exchange.arrived += fresh;
    pool_->note_bytes(fresh);
    if (target.destination == body_target::kind::text) {
      if (exchange.arrived > target.text_bytes_max) {
        co_return malformed_failure("the server's response has more than the " +
                                    grouped(target.text_bytes_max) + " bytes that are expected");
      }
      target.text->append(reinterpret_cast<const char*>(buffer.data()), got);
    }
    if (target.destination == body_target::kind::drop &&
        (exchange.arrived > dropped_bytes_max || code)) {
      if (code != http::error::need_buffer || exchange.arrived > dropped_bytes_max) {
        shut();
        co_return std::nullopt;
      }
    }
    if (code == http::error::need_buffer) code = {};
    if (code) co_return failure_of(code, "receiving the response");
  }
  if (in_memory && exchange.arrived < target.into.size()) {
    co_return retryable_failure("the server's response ended early");
  }
  co_return std::nullopt;
}

}  // namespace ringload::inline v0::remote_http
