// SPDX-License-Identifier: Apache-2.0

// Opens a connection to one origin and closes the connection. The connection opens when a request
// waits, serves one request after the other, and closes after a failure or a long idle time.
// http_receive.cpp sends the requests and receives the responses.
//
// A connection takes a request from the queue when the connection is open. If the connection cannot
// be opened, the connection takes a request and reports the failure to this request. During name
// resolution and the TLS handshake, the request is still in the queue and can be cancelled
// immediately.

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

http_connection::~http_connection() {
  pool_->unregister_connection(*this);
  if (ahead_ == current_) ahead_ = nullptr;
  for (http_exchange* const lost : {current_, ahead_}) {
    if (lost == nullptr) continue;
    lost->failure = exchange_failure{{errc::memory_exceeded, ""}, true};
    pool_->end(*lost);
  }
  if (current_ != nullptr) end_exchange();
}

void http_connection::begin_exchange(http_exchange& exchange) noexcept {
  current_ = &exchange;
  pool_->begin_exchange();
}

void http_connection::end_exchange() noexcept {
  current_ = nullptr;
  pool_->end_exchange();
}

void abort(http_connection& connection) noexcept { connection.abort(); }

bool drop_sent_ahead(http_connection& connection, const http_exchange& exchange) noexcept {
  return connection.drop_sent_ahead(exchange);
}

asio::awaitable<std::optional<exchange_failure>> http_connection::resolve(
    const std::string& host, std::uint16_t port, std::vector<tcp::endpoint>& out) {
  error_code code;
  const auto literal = asio::ip::make_address(host, code);
  if (!code) {
    out.emplace_back(literal, port);
    co_return std::nullopt;
  }
  const auto state = std::make_shared<name_resolution>(pool_->loop);
  const auto found = [state](const error_code& failed, const tcp::resolver::results_type& results) {
    state->is_resolved = true;
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
  if (!state->is_resolved) {
    state->resolver.cancel();
    co_return timeout_failure("the host name was not resolved in time");
  }
  if (state->failed) co_return failure_of(state->failed, "the host name cannot be resolved");
  out = std::move(state->found);
  co_return std::nullopt;
}

asio::awaitable<std::optional<exchange_failure>> http_connection::connect_to_any(
    const std::vector<tcp::endpoint>& endpoints) {
  const auto end = std::chrono::steady_clock::now() + settings().connect_time_max;
  std::optional<exchange_failure> failed;
  for (std::size_t i = 0; i < endpoints.size() && !aborted_; ++i) {
    const auto left = end - std::chrono::steady_clock::now();
    stream_.emplace(pool_->loop);
    stream_->lowest().expires_after(i + 1 < endpoints.size() ? left / 2 : left);
    error_code code;
    co_await stream_->lowest().async_connect(endpoints[i],
                                             asio::redirect_error(asio::use_awaitable, code));
    if (!code) {
      stream_->lowest().socket().set_option(tcp::no_delay(true), code);
      private_peer_ = is_private(endpoints[i].address());
      co_return std::nullopt;
    }
    failed = failure_of(code, "connecting");
    stream_->lowest().close();
  }
  if (!failed) failed = retryable_failure("connecting failed");
  co_return failed;
}

// Asks the proxy for a tunnel to the origin.
asio::awaitable<std::optional<exchange_failure>> http_connection::tunnel() {
  response_parser parser;
  const std::string name =
      pool_->to.host.find(':') == std::string::npos ? pool_->to.host : "[" + pool_->to.host + "]";
  const std::string to = name + ":" + std::to_string(pool_->to.port);
  const std::string ask =
      "CONNECT " + to + " HTTP/1.1\r\nHost: " + to + "\r\n" + proxy_fields(settings()) + "\r\n";
  error_code code;
  stream_->lowest().expires_after(settings().connect_time_max);
  co_await asio::async_write(*stream_, asio::buffer(ask),
                             asio::redirect_error(asio::use_awaitable, code));
  if (code) co_return failure_of(code, "asking the proxy");
  parser.header_limit(header_bytes_max);
  parser.skip(true);
  co_await http::async_read_header(*stream_, buffer_, parser,
                                   asio::redirect_error(asio::use_awaitable, code));
  if (code) co_return failure_of(code, "asking the proxy");
  const unsigned status = parser.get().result_int();
  const bool is_accepted = status / 100 == 2;
  if (is_accepted && buffer_.size() == 0) co_return std::nullopt;
  exchange_failure failed = retryable_failure(
      "the proxy http://" + settings().proxy->authority() + " answered " + std::to_string(status) +
      " to CONNECT" + (is_accepted ? ", and sent bytes before it was asked for any" : ""));
  failed.final = status < 500;
  co_return failed;
}

asio::awaitable<std::optional<exchange_failure>> http_connection::tls_handshake() {
  error_code code;
  auto& tls = stream_->encrypt(settings().tls->loaded());
  asio::ip::make_address(pool_->to.host, code);
  const bool named = static_cast<bool>(code);
  if (named && SSL_set_tlsext_host_name(tls.native_handle(), pool_->to.host.c_str()) != 1) {
    co_return final_failure("the host name cannot be sent to the server");
  }
  tls.set_verify_mode(ssl::verify_peer, code);
  // Sets OpenSSL's error for a wrong host name, so that the error text contains the reason.
  const auto check_host = [names = ssl::host_name_verification(pool_->to.host)](
                              bool trusted, ssl::verify_context& chain) {
    const bool fits = names(trusted, chain);
    if (trusted && !fits) {
      X509_STORE_CTX_set_error(chain.native_handle(), X509_V_ERR_HOSTNAME_MISMATCH);
    }
    return fits;
  };
  tls.set_verify_callback(check_host, code);
  stream_->lowest().expires_after(settings().connect_time_max);
  co_await tls.async_handshake(ssl::stream_base::client,
                               asio::redirect_error(asio::use_awaitable, code));
  if (!code) co_return std::nullopt;
  const long verified = SSL_get_verify_result(tls.native_handle());
  if (verified == X509_V_ERR_HOSTNAME_MISMATCH) {
    co_return final_failure("the server's certificate is not valid for the host '" +
                            pool_->to.host + "'");
  }
  if (verified != X509_V_OK) {
    co_return final_failure(std::string("the server's certificate is not trusted: ") +
                            X509_verify_cert_error_string(verified));
  }
  exchange_failure failed = failure_of(code, "TLS");
  failed.final = code.category() == asio::error::get_ssl_category();
  co_return failed;
}

asio::awaitable<std::optional<exchange_failure>> http_connection::connect() {
  std::vector<tcp::endpoint> endpoints;
  const http_url* const proxy = settings().proxy_for(pool_->to.host, pool_->to.port);
  const bool direct = proxy == nullptr;
  const std::string host = direct ? pool_->to.host : proxy->host;
  const std::uint16_t port = direct ? pool_->to.port : proxy->port;
  aborted_ = used_ = private_peer_ = false;
  buffer_.clear();
  auto failed = co_await resolve(host, port, endpoints);
  if (!failed && direct && pool_->to.public_only) {
    std::erase_if(endpoints,
                  [](const tcp::endpoint& endpoint) { return is_private(endpoint.address()); });
    if (endpoints.empty()) {
      failed = final_failure(
          "the request was redirected to an address of this machine or of a private network, which "
          "is not "
          "followed (remote_options::private_redirects)");
    }
  }
  if (!failed && !aborted_) {
    auto reached = co_await connect_to_any(endpoints);
    failed = std::move(reached);
  }
  if (failed && !direct) {
    const fault reason = failed->reason;
    failed->reason = {reason.code, reason.where(),
                      "the proxy http://" + proxy->authority() + ": " + reason.cause()};
  }
  if (!failed && !direct && pool_->to.tls && !aborted_) {
    auto through = co_await tunnel();
    failed = std::move(through);
  }
  if (!failed && pool_->to.tls && !aborted_) {
    auto handshake_failure = co_await tls_handshake();
    failed = std::move(handshake_failure);
  }
  if (!failed && aborted_) failed = retryable_failure("the connection was cancelled");
  open_ = !failed;
  if (failed) failed->is_unconnected = true;
  if (!open_) shut();
  co_return failed;
}

asio::awaitable<void> serve(connection_slot slot, bool connect_early) {
  const connection_slot counted(std::move(slot));
  const std::shared_ptr<host_pool> pool = counted.pool();
  http_connection connection(pool);
  bool early = connect_early;
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
      http_exchange* const next = failed ? pool->take() : nullptr;
      if (next) {
        next->failure = std::move(failed);
        pool->end(*next);
      }
    }
    http_exchange* const sent = connection.sent_ahead();
    http_exchange* const exchange = sent ? sent : connection.open() ? pool->take() : nullptr;
    if (exchange == nullptr) {
      const bool more = co_await pool->wait();
      if (!more) break;
      continue;
    }
    bool ended = true;
    connection.begin_exchange(*exchange);
    try {
      const bool performed = co_await connection.perform(*exchange);
      ended = performed;
    } catch (const std::bad_alloc&) {
      exchange->failure = exchange_failure{{errc::memory_exceeded, ""}, true};
      connection.shut();
    }
    connection.end_exchange();
    http_exchange* const next = connection.open() ? nullptr : connection.take_sent_ahead();
    // `next` is `exchange` itself if perform() had no memory for its coroutine.
    if (next && next != exchange) pool->put_back(*next);
    if (ended) {
      pool->end(*exchange);
    } else {
      pool->put_back(*exchange);
    }
  }
  connection.shut();
}

}  // namespace ringload::inline v0::remote_http
