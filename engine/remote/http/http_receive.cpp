// SPDX-License-Identifier: Apache-2.0

// Sends requests on a connection and receives the answers. If the server had closed an idle
// connection before a request was sent, the request returns to the front of the queue, once.
//
// While a range is received, the connection sends the next request ahead if a request waits and no
// connection is free. Therefore a connection is not idle for a round trip between two requests. If
// the connection breaks, the request returns to the front of the queue.

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

constexpr std::size_t dropped_bytes_max = 64 << 10;  // Limit of discarded bytes.
constexpr int interim_answers_max = 8;

answer_head head_of(const answer_parser& parser) {
  answer_head out;
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

}  // namespace

asio::awaitable<bool> link::carry(exchange& x) {
  error_code code;
  x.on = this;
  x.failure.reset();
  x.answer = {};
  x.arrived = 0;
  x.private_peer = private_peer_;
  const bool stale = used_ && !x.repeated;
  const bool sent = ahead_ == &x;
  ahead_ = nullptr;
  goes_ahead_ = false;
  if (!sent) {
    wire_->lowest().expires_after(settings().silence_time_max);
    co_await asio::async_write(*wire_, asio::buffer(x.request),
                               asio::redirect_error(asio::use_awaitable, code));
  }
  if (code) {
    x.failure = of_code(code, "sending the request");
  } else {
    auto failed = co_await receive(x);
    x.failure = std::move(failed);
  }
  used_ = true;
  if (x.cancelled) {
    x.failure =
        exchange_failure{{asio::error::operation_aborted, "", "the request was cancelled"}, true};
  }
  const bool spoiled = std::exchange(spoiled_, false);
  if (x.failure || spoiled) shut();
  // The connection had been idle and no byte of an answer was received.
  const bool anew = stale && x.failure && !x.failure->final && x.answer.status == 0 &&
                    buffer_.size() == 0 && !x.failure->silent;
  if (anew) x.repeated = true;
  co_return !anew;
}

asio::awaitable<std::optional<exchange_failure>> link::receive(exchange& x) {
  std::optional<answer_parser> parser;
  error_code code;
  for (int i = 0; i < interim_answers_max; ++i) {
    parser.emplace();
    parser->header_limit(header_bytes_max);
    parser->body_limit(boost::none);
    if (x.head) parser->skip(true);
    wire_->lowest().expires_after(settings().silence_time_max);
    co_await http::async_read_header(*wire_, buffer_, *parser,
                                     asio::redirect_error(asio::use_awaitable, code));
    if (code) co_return of_code(code, "receiving the answer's head");
    if (parser->get().result_int() >= 200) break;
  }
  x.answer = head_of(*parser);
  if (x.answer.status < 200) co_return malformed("the server sends only interim answers");
  const body_place place = x.place(x.answer);
  const bool empty = x.head || x.answer.status == 204 || x.answer.status == 304;
  const bool kept = parser->keep_alive();
  std::optional<exchange_failure> failed;
  goes_ahead_ = kept && x.answer.status == 206 && place.destination == body_place::kind::memory;
  const bool sized = x.answer.content_length && !parser->chunked();
  if (!empty && sized && place.destination == body_place::kind::stream) {
    auto received = co_await receive_stream(x, *place.sink);
    failed = std::move(received);
  } else if (!empty && sized) {
    auto received = co_await receive_sized(x, place);
    failed = std::move(received);
  } else if (!empty) {
    auto received = co_await receive_parsed(x, place, *parser);
    failed = std::move(received);
  }
  // Bytes that arrive before a request belong to no answer.
  if (!failed && (!kept || (buffer_.size() > 0 && ahead_ == nullptr))) shut();
  co_return failed;
}

asio::awaitable<void> link::send_ahead() {
  error_code code;
  ahead_ = pool_->take_ahead();
  if (ahead_ == nullptr) co_return;
  ahead_->on = this;
  ahead_request_ = ahead_->request;  // A copy: the exchange may end during the write.
  wire_->lowest().expires_after(settings().silence_time_max);
  // The next read reports a failure of this write.
  co_await asio::async_write(*wire_, asio::buffer(ahead_request_),
                             asio::redirect_error(asio::use_awaitable, code));
}

bool link::forget_ahead(const exchange& x) noexcept {
  if (&x != ahead_) return false;
  ahead_ = nullptr;
  spoiled_ = true;
  return true;
}

// Receives a body of known length. Only the bytes that arrived with the head are copied.
asio::awaitable<std::optional<exchange_failure>> link::receive_sized(exchange& x,
                                                                     const body_place& place) {
  std::vector<std::byte> scratch;
  error_code code;
  const std::uint64_t left = *x.answer.content_length;
  std::span<std::byte> room = place.into;
  if (place.destination == body_place::kind::memory && left != room.size()) {
    co_return malformed("the length of the server's answer is not the requested length");
  }
  if (place.destination == body_place::kind::text && left > place.text_bytes_max) {
    co_return malformed("the server's answer has " + grouped(left) + " bytes, more than the " +
                        grouped(place.text_bytes_max) + " that are expected");
  }
  if (place.destination == body_place::kind::drop && left > dropped_bytes_max) {
    shut();
    co_return std::nullopt;
  }
  if (place.destination != body_place::kind::memory) {
    scratch.resize(static_cast<std::size_t>(left));
    room = scratch;
  }
  const std::size_t buffered = std::min<std::size_t>(buffer_.size(), room.size());
  if (buffered > 0) std::memcpy(room.data(), buffer_.data().data(), buffered);
  buffer_.consume(buffered);
  x.arrived = buffered;
  while (x.arrived < room.size()) {
    if (goes_ahead_ && ahead_ == nullptr && !spoiled_) co_await send_ahead();
    wire_->lowest().expires_after(settings().silence_time_max);
    const auto rest = room.subspan(static_cast<std::size_t>(x.arrived));
    const std::size_t got = co_await wire_->async_read_some(
        asio::buffer(rest.data(), rest.size()), asio::redirect_error(asio::use_awaitable, code));
    x.arrived += got;
    pool_->note_bytes(got);
    if (code) break;
  }
  if (place.destination == body_place::kind::text) {
    place.text->assign(reinterpret_cast<const char*>(room.data()),
                       static_cast<std::size_t>(x.arrived));
  }
  if (code && place.destination == body_place::kind::drop) {
    shut();
    co_return std::nullopt;
  }
  if (code) co_return of_code(code, "receiving the answer");
  co_return std::nullopt;
}

asio::awaitable<std::optional<std::span<std::byte>>> link::room_of(body_sink& sink) {
  std::optional<std::span<std::byte>> out;
  sink_ = &sink;
  auto found = co_await sink.room(*pool_);
  out = found;
  sink_ = nullptr;
  co_return out;
}

// Receives a body of known length as the sink has room.
asio::awaitable<std::optional<exchange_failure>> link::receive_stream(exchange& x,
                                                                      body_sink& sink) {
  error_code code;
  std::uint64_t left = *x.answer.content_length;
  while (left > 0) {
    const auto room = co_await room_of(sink);
    if (!room) co_return exchange_failure{sink.too_long(), true};
    if (room->empty()) {
      shut();
      break;
    }
    const auto bytes = static_cast<std::size_t>(std::min<std::uint64_t>(left, room->size()));
    std::size_t got = std::min(buffer_.size(), bytes);
    if (got > 0) {
      std::memcpy(room->data(), buffer_.data().data(), got);
      buffer_.consume(got);
    } else {
      wire_->lowest().expires_after(settings().silence_time_max);
      const std::size_t came = co_await wire_->async_read_some(
          asio::buffer(room->data(), bytes), asio::redirect_error(asio::use_awaitable, code));
      got = came;
    }
    left -= got;
    const std::uint64_t fresh = got > 0 ? sink.take(got) : 0;
    x.arrived += fresh;
    pool_->note_bytes(fresh);
    if (code) co_return of_code(code, "receiving the answer");
  }
  co_return std::nullopt;
}

// Receives a chunked body, or a body that ends with the connection.
asio::awaitable<std::optional<exchange_failure>> link::receive_parsed(exchange& x,
                                                                      const body_place& place,
                                                                      answer_parser& parser) {
  std::vector<std::byte> scratch(std::size_t{16} << 10);
  error_code code;
  const bool in_memory = place.destination == body_place::kind::memory;
  const bool in_stream = place.destination == body_place::kind::stream;
  while (!parser.is_done()) {
    std::span<std::byte> rest;
    if (in_memory) rest = place.into.subspan(static_cast<std::size_t>(x.arrived));
    if (in_stream) {
      const auto found = co_await room_of(*place.sink);
      if (found && found->empty()) {
        shut();
        break;
      }
      rest = found.value_or(rest);
    }
    const std::span<std::byte> room = rest.empty() ? std::span(scratch) : rest;
    parser.get().body().data = room.data();
    parser.get().body().size = room.size();
    parser.get().body().more = true;
    wire_->lowest().expires_after(settings().silence_time_max);
    co_await http::async_read_some(*wire_, buffer_, parser,
                                   asio::redirect_error(asio::use_awaitable, code));
    const std::size_t got = room.size() - parser.get().body().size;
    if (in_memory && rest.empty() && got > 0) {
      co_return malformed("the server's answer has more bytes than requested");
    }
    if (in_stream && rest.empty() && got > 0) {
      co_return exchange_failure{place.sink->too_long(), true};
    }
    const std::uint64_t fresh = in_stream && got > 0 ? place.sink->take(got) : got;
    x.arrived += fresh;
    pool_->note_bytes(fresh);
    if (place.destination == body_place::kind::text) {
      if (x.arrived > place.text_bytes_max) {
        co_return malformed("the server's answer has more than the " +
                            grouped(place.text_bytes_max) + " bytes that are expected");
      }
      place.text->append(reinterpret_cast<const char*>(room.data()), got);
    }
    if (place.destination == body_place::kind::drop && (x.arrived > dropped_bytes_max || code)) {
      if (code != http::error::need_buffer || x.arrived > dropped_bytes_max) {
        shut();
        co_return std::nullopt;
      }
    }
    if (code == http::error::need_buffer) code = {};
    if (code) co_return of_code(code, "receiving the answer");
  }
  if (in_memory && x.arrived < place.into.size()) {
    co_return passing("the server's answer ended early");
  }
  co_return std::nullopt;
}

}  // namespace ringload::inline v0::remote_http
