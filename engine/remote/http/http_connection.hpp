// SPDX-License-Identifier: Apache-2.0
#pragma once

// A connection to one origin. connection.cpp opens the connection. http_receive.cpp sends requests
// and receives responses. Only these two source files include Beast.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "remote/http/host_pool.hpp"
#include "remote/http/tls_stream.hpp"

namespace ringload::inline v0::remote_http {

inline constexpr std::uint32_t header_bytes_max = 64 << 10;
// Maximum number of received bytes that are not parsed yet: a header and the first bytes of its
// body, the line before a chunk, or the trailers.
inline constexpr std::size_t unparsed_bytes_max = 128 << 10;

using response_parser = http::response_parser<http::buffer_body>;

class http_connection {
 public:
  explicit http_connection(std::shared_ptr<host_pool> pool) : pool_(std::move(pool)) {
    pool_->register_connection(*this);
  }
  http_connection(const http_connection&) = delete;
  http_connection& operator=(const http_connection&) = delete;
  // Ends the exchanges in progress with a failure. At destruction, exchanges are in progress only
  // if the coroutine of the connection was destroyed because memory was exhausted.
  ~http_connection();

  bool open() const noexcept { return open_; }
  void shut() noexcept {
    open_ = false;
    if (stream_) stream_->lowest().close();
  }
  void abort() noexcept {
    aborted_ = true;
    if (resolving_) resolving_->timer.cancel();
    if (sink_ != nullptr) sink_->wake();
    shut();
  }

  // Returns a failure, or an empty optional if the connection is open.
  asio::awaitable<std::optional<exchange_failure>> connect();
  // Sends the request, receives the response, and stores the outcome in `exchange`. Returns false
  // if `exchange` must be sent again.
  asio::awaitable<bool> perform(http_exchange& exchange);
  // The caller must call begin_exchange() before perform(), and end_exchange() after perform().
  void begin_exchange(http_exchange& exchange) noexcept;
  void end_exchange() noexcept;
  // The request that was sent ahead: see http_receive.cpp. The response to this request is received
  // next. If this connection is closed, another connection sends the request again.
  http_exchange* sent_ahead() const noexcept { return ahead_; }
  http_exchange* take_sent_ahead() noexcept { return std::exchange(ahead_, nullptr); }
  // Drops the response to `exchange`. Returns false if `exchange` was not sent ahead.
  bool drop_sent_ahead(const http_exchange& exchange) noexcept;

 private:
  const client_settings& settings() const noexcept { return pool_->settings; }
  asio::awaitable<std::optional<exchange_failure>> resolve(const std::string& host,
                                                           std::uint16_t port,
                                                           std::vector<tcp::endpoint>& out);
  asio::awaitable<std::optional<exchange_failure>> connect_to_any(
      const std::vector<tcp::endpoint>& endpoints);
  asio::awaitable<std::optional<exchange_failure>> tunnel();
  asio::awaitable<std::optional<exchange_failure>> tls_handshake();
  asio::awaitable<std::optional<exchange_failure>> send(http_exchange& exchange);
  asio::awaitable<std::optional<exchange_failure>> receive(http_exchange& exchange);
  asio::awaitable<std::optional<exchange_failure>> receive_sized(http_exchange& exchange,
                                                                 const body_target& target);
  asio::awaitable<std::optional<exchange_failure>> receive_parsed(http_exchange& exchange,
                                                                  const body_target& target,
                                                                  response_parser& parser);
  asio::awaitable<void> send_ahead();
  asio::awaitable<std::optional<exchange_failure>> receive_stream(http_exchange& exchange,
                                                                  body_sink& sink);
  asio::awaitable<std::optional<std::span<std::byte>>> next_buffer_of(body_sink& sink);

  const std::shared_ptr<host_pool> pool_;
  std::optional<tls_stream> stream_;
  beast::flat_buffer buffer_{unparsed_bytes_max};  // Received bytes that are not parsed yet.
  std::shared_ptr<name_resolution> resolving_;
  body_sink* sink_ = nullptr;  // Sink whose next_buffer() is being awaited.
  http_exchange* ahead_ = nullptr;
  std::string ahead_request_;
  http_exchange* current_ = nullptr;
  bool response_dropped_ = false;  // The response to the request that was sent ahead was dropped.
  bool can_send_ahead_ = false;    // The server keeps the connection open and supports ranges.
  bool open_ = false;
  bool aborted_ = false;
  bool used_ = false;  // The connection has sent a request.
  bool private_peer_ = false;
};

}  // namespace ringload::inline v0::remote_http
