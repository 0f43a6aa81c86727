// SPDX-License-Identifier: Apache-2.0

// A connection to one origin: made when there is something to fetch, used for one request after the
// other, closed when it was idle for long or something is wrong with it. The only source that knows
// Beast and TLS.
//
// A request is bound to a connection once that stands, so that one that waits for a name or a
// handshake is cancelled at once. One that was sent on a connection which the server had closed
// meanwhile, as idle ones are, goes back to the front of the queue, once.

#include <algorithm>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/write.hpp>
#include <chrono>
#include <cstring>
#include <new>
#include <utility>
#include <vector>

#include "remote/address.hpp"
#include "remote/host_pool.hpp"
#include "remote/tls_settings.hpp"
#include "remote/wire.hpp"

namespace ringload::inline v0::remote_http {

namespace {

constexpr std::uint32_t header_bytes_max = 64 << 10;
constexpr std::size_t dropped_bytes_max = 64 << 10;  // To keep a connection, of a body not wanted.
constexpr std::size_t endpoints_max = 8;
constexpr int interim_answers_max = 8;

using answer_parser = http::response_parser<http::buffer_body>;

answer_head head_of(const answer_parser& parser) {
  answer_head out;
  out.status = parser.get().result_int();
  for (const auto& each : parser.get()) {
    std::string name(each.name_string());
    for (char& c : name) c = static_cast<char>(c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c);
    out.fields.push_back({std::move(name), std::string(each.value())});
  }
  const auto length = parser.content_length();
  if (length) out.content_length = *length;
  return out;
}

}  // namespace

class link {
 public:
  explicit link(std::shared_ptr<host_pool> of) : pool_(std::move(of)) { pool_->enter(*this); }
  link(const link&) = delete;
  link& operator=(const link&) = delete;
  ~link() { pool_->leave(*this); }

  bool open() const noexcept { return open_; }
  void shut() noexcept {
    open_ = false;
    if (wire_) wire_->lowest().close();
  }
  void abort() noexcept {
    aborted_ = true;
    if (resolving_) resolving_->timer.cancel();
    shut();
  }

  // Empty: it is open.
  asio::awaitable<std::optional<exchange_failure>> connect();
  // Sends it and receives the answer; the outcome is in `x`. False: it is to be sent anew.
  asio::awaitable<bool> carry(exchange& x);

 private:
  const client_settings& how() const noexcept { return pool_->how; }
  asio::awaitable<std::optional<exchange_failure>> resolve(const std::string& host,
                                                           std::uint16_t port,
                                                           std::vector<tcp::endpoint>& out);
  asio::awaitable<std::optional<exchange_failure>> reach(const std::vector<tcp::endpoint>& any);
  asio::awaitable<std::optional<exchange_failure>> tunnel();
  asio::awaitable<std::optional<exchange_failure>> shake_hands();
  asio::awaitable<std::optional<exchange_failure>> receive(exchange& x);
  asio::awaitable<std::optional<exchange_failure>> receive_sized(exchange& x,
                                                                 const body_place& place);
  asio::awaitable<std::optional<exchange_failure>> receive_parsed(exchange& x,
                                                                  const body_place& place,
                                                                  answer_parser& parser);

  const std::shared_ptr<host_pool> pool_;
  std::optional<wire> wire_;
  beast::flat_buffer buffer_;  // What was received and not looked at.
  std::shared_ptr<resolution> resolving_;
  bool open_ = false;
  bool aborted_ = false;
  bool used_ = false;  // It has carried an answer.
  bool private_peer_ = false;
};

void abort(link& one) noexcept { one.abort(); }

asio::awaitable<std::optional<exchange_failure>> link::resolve(const std::string& host,
                                                               std::uint16_t port,
                                                               std::vector<tcp::endpoint>& out) {
  error_code code;
  const auto literal = asio::ip::make_address(host, code);
  if (!code) {
    out.emplace_back(literal, port);
    co_return std::nullopt;
  }
  const auto state = std::make_shared<resolution>(pool_->loop);
  const auto found = [state](const error_code& failed, const tcp::resolver::results_type& all) {
    state->done = true;
    state->failed = failed;
    for (const auto& each : all) {
      if (state->found.size() < endpoints_max) state->found.push_back(each.endpoint());
    }
    state->timer.cancel();
  };
  state->timer.expires_after(how().connect_time_max);
  state->by.async_resolve(host, std::to_string(port), tcp::resolver::numeric_service, found);
  resolving_ = state;
  co_await state->timer.async_wait(asio::redirect_error(asio::use_awaitable, code));
  resolving_.reset();
  if (!state->done) {
    state->by.cancel();
    co_return timed_out("its host's name was not resolved in time");
  }
  if (state->failed) co_return of_code(state->failed, "its host's name cannot be resolved");
  out = std::move(state->found);
  co_return std::nullopt;
}

asio::awaitable<std::optional<exchange_failure>> link::reach(
    const std::vector<tcp::endpoint>& any) {
  const auto end = std::chrono::steady_clock::now() + how().connect_time_max;
  std::optional<exchange_failure> failed;
  for (std::size_t i = 0; i < any.size() && !aborted_; ++i) {
    const auto left = end - std::chrono::steady_clock::now();
    wire_.emplace(pool_->loop);
    wire_->lowest().expires_after(i + 1 < any.size() ? left / 2 : left);
    error_code code;
    co_await wire_->lowest().async_connect(any[i], asio::redirect_error(asio::use_awaitable, code));
    if (!code) {
      wire_->lowest().socket().set_option(tcp::no_delay(true), code);
      private_peer_ = is_private(any[i].address());
      co_return std::nullopt;
    }
    failed = of_code(code, "no connection to it");
    wire_->lowest().close();
  }
  if (!failed) failed = passing("no connection to it");
  co_return failed;
}

// Through a proxy.
asio::awaitable<std::optional<exchange_failure>> link::tunnel() {
  answer_parser parser;
  const std::string name =
      pool_->to.host.find(':') == std::string::npos ? pool_->to.host : "[" + pool_->to.host + "]";
  const std::string to = name + ":" + std::to_string(pool_->to.port);
  const std::string ask = "CONNECT " + to + " HTTP/1.1\r\nHost: " + to + "\r\n\r\n";
  error_code code;
  wire_->lowest().expires_after(how().connect_time_max);
  co_await asio::async_write(*wire_, asio::buffer(ask),
                             asio::redirect_error(asio::use_awaitable, code));
  if (code) co_return of_code(code, "asking the proxy");
  parser.header_limit(header_bytes_max);
  parser.skip(true);
  co_await http::async_read_header(*wire_, buffer_, parser,
                                   asio::redirect_error(asio::use_awaitable, code));
  if (code) co_return of_code(code, "asking the proxy");
  const unsigned status = parser.get().result_int();
  if (status == 200 && buffer_.size() == 0) co_return std::nullopt;
  exchange_failure failed = passing("the proxy answered " + std::to_string(status) + " to CONNECT");
  failed.final = status < 500;
  co_return failed;
}

asio::awaitable<std::optional<exchange_failure>> link::shake_hands() {
  error_code code;
  auto& tls = wire_->encrypt(how().tls->whole());
  asio::ip::make_address(pool_->to.host, code);
  const bool named = static_cast<bool>(code);
  if (named && SSL_set_tlsext_host_name(tls.native_handle(), pool_->to.host.c_str()) != 1) {
    co_return hopeless("the name of its host cannot be sent");
  }
  tls.set_verify_mode(ssl::verify_peer, code);
  tls.set_verify_callback(ssl::host_name_verification(pool_->to.host), code);
  wire_->lowest().expires_after(how().connect_time_max);
  co_await tls.async_handshake(ssl::stream_base::client,
                               asio::redirect_error(asio::use_awaitable, code));
  if (!code) co_return std::nullopt;
  const long verified = SSL_get_verify_result(tls.native_handle());
  if (verified != X509_V_OK) {
    co_return hopeless(std::string("its certificate is not trusted: ") +
                       X509_verify_cert_error_string(verified));
  }
  exchange_failure failed = of_code(code, "TLS");
  failed.final = code.category() == asio::error::get_ssl_category();
  co_return failed;
}

asio::awaitable<std::optional<exchange_failure>> link::connect() {
  std::vector<tcp::endpoint> all;
  const bool direct = !how().proxy;
  const std::string host = direct ? pool_->to.host : how().proxy->host;
  const std::uint16_t port = direct ? pool_->to.port : how().proxy->port;
  aborted_ = used_ = private_peer_ = false;
  buffer_.clear();
  auto failed = co_await resolve(host, port, all);
  if (!failed && direct && pool_->to.public_only) {
    std::erase_if(all, [](const tcp::endpoint& one) { return is_private(one.address()); });
    if (all.empty()) {
      failed = hopeless(
          "it was redirected to an address of this machine or of a private network, which is not "
          "followed (remote_options::private_redirects)");
    }
  }
  if (!failed && !aborted_) {
    auto reached = co_await reach(all);
    failed = std::move(reached);
  }
  if (!failed && !direct && pool_->to.tls && !aborted_) {
    auto through = co_await tunnel();
    failed = std::move(through);
  }
  if (!failed && pool_->to.tls && !aborted_) {
    auto shaken = co_await shake_hands();
    failed = std::move(shaken);
  }
  if (!failed && aborted_) failed = passing("the connection was given up");
  open_ = !failed;
  if (!open_) shut();
  co_return failed;
}

asio::awaitable<bool> link::carry(exchange& x) {
  error_code code;
  x.on = this;
  x.failure.reset();
  x.answer = {};
  x.arrived = 0;
  x.private_peer = private_peer_;
  // What is there before it was asked for belongs to no answer.
  const bool stale = used_ && !x.repeated;
  wire_->lowest().expires_after(how().silence_time_max);
  co_await asio::async_write(*wire_, asio::buffer(x.request),
                             asio::redirect_error(asio::use_awaitable, code));
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
  if (x.failure) shut();
  // No byte of an answer on a connection that had been idle.
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
    wire_->lowest().expires_after(how().silence_time_max);
    co_await http::async_read_header(*wire_, buffer_, *parser,
                                     asio::redirect_error(asio::use_awaitable, code));
    if (code) co_return of_code(code, "receiving the answer's head");
    if (parser->get().result_int() >= 200) break;
  }
  x.answer = head_of(*parser);
  if (x.answer.status < 200) co_return malformed("the server gives interim answers only");
  const body_place place = x.place(x.answer);
  const bool empty = x.head || x.answer.status == 204 || x.answer.status == 304;
  const bool kept = parser->keep_alive();
  std::optional<exchange_failure> failed;
  if (!empty && x.answer.content_length && !parser->chunked()) {
    auto received = co_await receive_sized(x, place);
    failed = std::move(received);
  } else if (!empty) {
    auto received = co_await receive_parsed(x, place, *parser);
    failed = std::move(received);
  }
  if (!failed && (!kept || buffer_.size() > 0)) shut();
  co_return failed;
}

// A body of known length: into its place itself, but for what came with the head.
asio::awaitable<std::optional<exchange_failure>> link::receive_sized(exchange& x,
                                                                     const body_place& place) {
  std::vector<std::byte> scratch;
  error_code code;
  std::uint64_t left = *x.answer.content_length;
  std::span<std::byte> room = place.into;
  if (place.how == body_place::kind::memory && left != room.size()) {
    co_return malformed("the server's answer has another length than was asked for");
  }
  if (place.how == body_place::kind::text && left > place.text_bytes_max) {
    co_return malformed("the server's answer has " + grouped(left) + " bytes, more than the " +
                        grouped(place.text_bytes_max) + " that are expected");
  }
  if (place.how == body_place::kind::drop && left > dropped_bytes_max) {
    shut();
    co_return std::nullopt;
  }
  if (place.how != body_place::kind::memory) {
    scratch.resize(static_cast<std::size_t>(left));
    room = scratch;
  }
  const std::size_t here = std::min<std::size_t>(buffer_.size(), room.size());
  if (here > 0) std::memcpy(room.data(), buffer_.data().data(), here);
  buffer_.consume(here);
  x.arrived = here;
  while (x.arrived < room.size()) {
    wire_->lowest().expires_after(how().silence_time_max);
    const auto rest = room.subspan(static_cast<std::size_t>(x.arrived));
    const std::size_t got = co_await wire_->async_read_some(
        asio::buffer(rest.data(), rest.size()), asio::redirect_error(asio::use_awaitable, code));
    x.arrived += got;
    if (code) break;
  }
  if (place.how == body_place::kind::text) {
    place.text->assign(reinterpret_cast<const char*>(room.data()),
                       static_cast<std::size_t>(x.arrived));
  }
  if (code && place.how == body_place::kind::drop) {
    shut();
    co_return std::nullopt;
  }
  if (code) co_return of_code(code, "receiving the answer");
  co_return std::nullopt;
}

// A body in chunks, or up to the end of the connection.
asio::awaitable<std::optional<exchange_failure>> link::receive_parsed(exchange& x,
                                                                      const body_place& place,
                                                                      answer_parser& parser) {
  std::vector<std::byte> scratch(std::size_t{16} << 10);
  error_code code;
  const bool in_memory = place.how == body_place::kind::memory;
  while (!parser.is_done()) {
    const auto rest = in_memory ? place.into.subspan(static_cast<std::size_t>(x.arrived))
                                : std::span<std::byte>();
    const std::span<std::byte> room = rest.empty() ? std::span(scratch) : rest;
    parser.get().body().data = room.data();
    parser.get().body().size = room.size();
    parser.get().body().more = true;
    wire_->lowest().expires_after(how().silence_time_max);
    co_await http::async_read_some(*wire_, buffer_, parser,
                                   asio::redirect_error(asio::use_awaitable, code));
    const std::size_t got = room.size() - parser.get().body().size;
    if (in_memory && rest.empty() && got > 0) {
      co_return malformed("the server's answer has more bytes than were asked for");
    }
    x.arrived += got;
    if (place.how == body_place::kind::text) {
      if (x.arrived > place.text_bytes_max) {
        co_return malformed("the server's answer has more than the " +
                            grouped(place.text_bytes_max) + " bytes that are expected");
      }
      place.text->append(reinterpret_cast<const char*>(room.data()), got);
    }
    if (place.how == body_place::kind::drop && (x.arrived > dropped_bytes_max || code)) {
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

asio::awaitable<void> serve(std::shared_ptr<host_pool> pool) {
  link one(pool);
  for (;;) {
    if (!one.open() && pool->has_work()) {
      std::optional<exchange_failure> failed;
      auto connected = co_await one.connect();
      failed = std::move(connected);
      exchange* const next = failed ? pool->take() : nullptr;
      if (next) {
        next->failure = std::move(failed);
        pool->end(*next);
      }
    }
    exchange* const x = one.open() ? pool->take() : nullptr;
    if (x == nullptr) {
      const bool more = co_await pool->wait();
      if (!more) break;
      continue;
    }
    bool ended = true;
    try {
      const bool carried = co_await one.carry(*x);
      ended = carried;
    } catch (const std::bad_alloc&) {
      x->failure = exchange_failure{{errc::memory_exceeded, ""}, true};
      one.shut();
    }
    if (ended) {
      pool->end(*x);
    } else {
      pool->put_back(*x);
    }
  }
  one.shut();
}

}  // namespace ringload::inline v0::remote_http
