// SPDX-License-Identifier: Apache-2.0

// A connection to one origin. The connection is opened when a request waits, serves one request
// after the other, and is closed after a long idle time or a failure. http_receive.cpp sends
// requests and receives answers.
//
// A request is assigned to a connection only after the connection is open. Therefore a request that
// waits for name resolution or a handshake can be cancelled at once.

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

void abort(link& connection) noexcept { connection.abort(); }

bool forget_ahead(link& connection, const exchange& x) noexcept {
  return connection.forget_ahead(x);
}

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
  const auto found = [state](const error_code& failed, const tcp::resolver::results_type& results) {
    state->done = true;
    state->failed = failed;
    for (const auto& entry : results) {
      if (state->found.size() < endpoints_max) state->found.push_back(entry.endpoint());
    }
    state->timer.cancel();
  };
  state->timer.expires_after(settings().connect_time_max);
  state->resolver.async_resolve(host, std::to_string(port), tcp::resolver::numeric_service, found);
  resolving_ = state;
  co_await state->timer.async_wait(asio::redirect_error(asio::use_awaitable, code));
  resolving_.reset();
  if (!state->done) {
    state->resolver.cancel();
    co_return timed_out("the host name was not resolved in time");
  }
  if (state->failed) co_return of_code(state->failed, "the host name cannot be resolved");
  out = std::move(state->found);
  co_return std::nullopt;
}

asio::awaitable<std::optional<exchange_failure>> link::reach(
    const std::vector<tcp::endpoint>& endpoints) {
  const auto end = std::chrono::steady_clock::now() + settings().connect_time_max;
  std::optional<exchange_failure> failed;
  for (std::size_t i = 0; i < endpoints.size() && !aborted_; ++i) {
    const auto left = end - std::chrono::steady_clock::now();
    wire_.emplace(pool_->loop);
    wire_->lowest().expires_after(i + 1 < endpoints.size() ? left / 2 : left);
    error_code code;
    co_await wire_->lowest().async_connect(endpoints[i],
                                           asio::redirect_error(asio::use_awaitable, code));
    if (!code) {
      wire_->lowest().socket().set_option(tcp::no_delay(true), code);
      private_peer_ = is_private(endpoints[i].address());
      co_return std::nullopt;
    }
    failed = of_code(code, "no connection to it");
    wire_->lowest().close();
  }
  if (!failed) failed = passing("no connection to it");
  co_return failed;
}

// Asks the proxy for a tunnel to the origin.
asio::awaitable<std::optional<exchange_failure>> link::tunnel() {
  answer_parser parser;
  const std::string name =
      pool_->to.host.find(':') == std::string::npos ? pool_->to.host : "[" + pool_->to.host + "]";
  const std::string to = name + ":" + std::to_string(pool_->to.port);
  const std::string ask = "CONNECT " + to + " HTTP/1.1\r\nHost: " + to + "\r\n\r\n";
  error_code code;
  wire_->lowest().expires_after(settings().connect_time_max);
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
  exchange_failure failed = passing("the proxy http://" + settings().proxy->authority() +
                                    " answered " + std::to_string(status) + " to CONNECT");
  failed.final = status < 500;
  co_return failed;
}

asio::awaitable<std::optional<exchange_failure>> link::shake_hands() {
  error_code code;
  auto& tls = wire_->encrypt(settings().tls->whole());
  asio::ip::make_address(pool_->to.host, code);
  const bool named = static_cast<bool>(code);
  if (named && SSL_set_tlsext_host_name(tls.native_handle(), pool_->to.host.c_str()) != 1) {
    co_return hopeless("the host name cannot be sent to the server");
  }
  tls.set_verify_mode(ssl::verify_peer, code);
  // Sets OpenSSL's error for a wrong name; otherwise the failure would be unspecified.
  const auto check_host = [names = ssl::host_name_verification(pool_->to.host)](
                              bool trusted, ssl::verify_context& chain) {
    const bool fits = names(trusted, chain);
    if (trusted && !fits) {
      X509_STORE_CTX_set_error(chain.native_handle(), X509_V_ERR_HOSTNAME_MISMATCH);
    }
    return fits;
  };
  tls.set_verify_callback(check_host, code);
  wire_->lowest().expires_after(settings().connect_time_max);
  co_await tls.async_handshake(ssl::stream_base::client,
                               asio::redirect_error(asio::use_awaitable, code));
  if (!code) co_return std::nullopt;
  const long verified = SSL_get_verify_result(tls.native_handle());
  if (verified == X509_V_ERR_HOSTNAME_MISMATCH) {
    co_return hopeless("the server's certificate is not valid for the host '" + pool_->to.host +
                       "'");
  }
  if (verified != X509_V_OK) {
    co_return hopeless(std::string("the server's certificate is not trusted: ") +
                       X509_verify_cert_error_string(verified));
  }
  exchange_failure failed = of_code(code, "TLS");
  failed.final = code.category() == asio::error::get_ssl_category();
  co_return failed;
}

asio::awaitable<std::optional<exchange_failure>> link::connect() {
  std::vector<tcp::endpoint> endpoints;
  const bool direct = !settings().proxy;
  const std::string host = direct ? pool_->to.host : settings().proxy->host;
  const std::uint16_t port = direct ? pool_->to.port : settings().proxy->port;
  aborted_ = used_ = private_peer_ = false;
  buffer_.clear();
  auto failed = co_await resolve(host, port, endpoints);
  if (!failed && direct && pool_->to.public_only) {
    std::erase_if(endpoints,
                  [](const tcp::endpoint& endpoint) { return is_private(endpoint.address()); });
    if (endpoints.empty()) {
      failed = hopeless(
          "the request was redirected to an address of this machine or of a private network, which "
          "is not "
          "followed (remote_options::private_redirects)");
    }
  }
  if (!failed && !aborted_) {
    auto reached = co_await reach(endpoints);
    failed = std::move(reached);
  }
  if (failed && !direct) {
    failed->reason.cause =
        "the proxy http://" + settings().proxy->authority() + ": " + failed->reason.cause;
  }
  if (!failed && !direct && pool_->to.tls && !aborted_) {
    auto through = co_await tunnel();
    failed = std::move(through);
  }
  if (!failed && pool_->to.tls && !aborted_) {
    auto shaken = co_await shake_hands();
    failed = std::move(shaken);
  }
  if (!failed && aborted_) failed = passing("the connection was cancelled");
  open_ = !failed;
  if (!open_) shut();
  co_return failed;
}

asio::awaitable<void> serve(connection_slot slot, bool at_once) {
  const connection_slot counted(std::move(slot));
  const std::shared_ptr<host_pool> pool = counted.pool();
  link connection(pool);
  bool early = at_once;
  for (;;) {
    if (!connection.open() && (pool->has_work() || std::exchange(early, false))) {
      std::optional<exchange_failure> failed;
      try {
        auto connected = co_await connection.connect();
        failed = std::move(connected);
      } catch (const std::bad_alloc&) {
        failed = exchange_failure{{errc::memory_exceeded, ""}, true};
        connection.shut();
      }
      exchange* const next = failed ? pool->take() : nullptr;
      if (next) {
        next->failure = std::move(failed);
        pool->end(*next);
      }
    }
    exchange* const sent = connection.sent_ahead();
    exchange* const x = sent ? sent : connection.open() ? pool->take() : nullptr;
    if (x == nullptr) {
      const bool more = co_await pool->wait();
      if (!more) break;
      continue;
    }
    bool ended = true;
    connection.begin_carrying(*x);
    try {
      const bool carried = co_await connection.carry(*x);
      ended = carried;
    } catch (const std::bad_alloc&) {
      x->failure = exchange_failure{{errc::memory_exceeded, ""}, true};
      connection.shut();
    }
    connection.end_carrying();
    exchange* const next = connection.open() ? nullptr : connection.take_sent_ahead();
    if (next) pool->put_back(*next);
    if (ended) {
      pool->end(*x);
    } else {
      pool->put_back(*x);
    }
  }
  connection.shut();
}

}  // namespace ringload::inline v0::remote_http
