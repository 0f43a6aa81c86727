// SPDX-License-Identifier: Apache-2.0

// A connection to one origin: made when there is something to fetch, used for one request after the
// other, closed when it was idle for long or something is wrong with it. What it carries is in
// http_receive.cpp.
//
// A request is bound to a connection once that stands, so that one that waits for a name or a
// handshake is cancelled at once.

#include <algorithm>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/write.hpp>
#include <chrono>
#include <new>
#include <utility>
#include <vector>

#include "remote/http/address.hpp"
#include "remote/http/http_connection.hpp"
#include "remote/http/tls_settings.hpp"

namespace ringload::inline v0::remote_http {

namespace {

constexpr std::size_t endpoints_max = 8;

}  // namespace

link::~link() {
  pool_->leave(*this);
  if (ahead_ == carried_) ahead_ = nullptr;
  for (exchange* const lost : {carried_, ahead_}) {
    if (lost == nullptr) continue;
    lost->failure = exchange_failure{{errc::memory_exceeded, ""}, true};
    pool_->end(*lost);
  }
  if (carried_ != nullptr) end_carrying();
}

void link::begin_carrying(exchange& x) noexcept {
  carried_ = &x;
  pool_->begin_carrying();
}

void link::end_carrying() noexcept {
  carried_ = nullptr;
  pool_->end_carrying();
}

void abort(link& one) noexcept { one.abort(); }

bool forget_ahead(link& one, const exchange& x) noexcept { return one.forget_ahead(x); }

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
  exchange_failure failed = passing("the proxy http://" + how().proxy->authority() + " answered " +
                                    std::to_string(status) + " to CONNECT");
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
  // Without the error of OpenSSL's own, a wrong name would be an unspecified failure.
  const auto check_host = [names = ssl::host_name_verification(pool_->to.host)](
                              bool trusted, ssl::verify_context& chain) {
    const bool fits = names(trusted, chain);
    if (trusted && !fits) {
      X509_STORE_CTX_set_error(chain.native_handle(), X509_V_ERR_HOSTNAME_MISMATCH);
    }
    return fits;
  };
  tls.set_verify_callback(check_host, code);
  wire_->lowest().expires_after(how().connect_time_max);
  co_await tls.async_handshake(ssl::stream_base::client,
                               asio::redirect_error(asio::use_awaitable, code));
  if (!code) co_return std::nullopt;
  const long verified = SSL_get_verify_result(tls.native_handle());
  if (verified == X509_V_ERR_HOSTNAME_MISMATCH) {
    co_return hopeless("its certificate is for another host than '" + pool_->to.host + "'");
  }
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
  if (failed && !direct) {
    failed->what.cause = "the proxy http://" + how().proxy->authority() + ": " + failed->what.cause;
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

asio::awaitable<void> serve(connection_slot slot, bool at_once) {
  const connection_slot counted(std::move(slot));
  const std::shared_ptr<host_pool> pool = counted.pool();
  link one(pool);
  bool early = at_once;
  for (;;) {
    if (!one.open() && (pool->has_work() || std::exchange(early, false))) {
      std::optional<exchange_failure> failed;
      try {
        auto connected = co_await one.connect();
        failed = std::move(connected);
      } catch (const std::bad_alloc&) {
        failed = exchange_failure{{errc::memory_exceeded, ""}, true};
        one.shut();
      }
      exchange* const next = failed ? pool->take() : nullptr;
      if (next) {
        next->failure = std::move(failed);
        pool->end(*next);
      }
    }
    exchange* const sent = one.sent_ahead();
    exchange* const x = sent ? sent : one.open() ? pool->take() : nullptr;
    if (x == nullptr) {
      const bool more = co_await pool->wait();
      if (!more) break;
      continue;
    }
    bool ended = true;
    one.begin_carrying(*x);
    try {
      const bool carried = co_await one.carry(*x);
      ended = carried;
    } catch (const std::bad_alloc&) {
      x->failure = exchange_failure{{errc::memory_exceeded, ""}, true};
      one.shut();
    }
    one.end_carrying();
    exchange* const next = one.open() ? nullptr : one.take_sent_ahead();
    if (next) pool->put_back(*next);
    if (ended) {
      pool->end(*x);
    } else {
      pool->put_back(*x);
    }
  }
  one.shut();
}

}  // namespace ringload::inline v0::remote_http
