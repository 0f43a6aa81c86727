// SPDX-License-Identifier: Apache-2.0
#pragma once

// A connection to one origin. connection.cpp opens the connection, http_receive.cpp transfers
// requests and answers. Only these sources include Beast and TLS.

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
// Limit of received bytes before parsing: a header and the first bytes of its body, the line before
// a chunk, or the trailers.
inline constexpr std::size_t unparsed_bytes_max = 128 << 10;

using answer_parser = http::response_parser<http::buffer_body>;

class link {
 public:
  explicit link(std::shared_ptr<host_pool> pool) : pool_(std::move(pool)) { pool_->enter(*this); }
  link(const link&) = delete;
  link& operator=(const link&) = delete;
  // Fails the exchanges in progress: the serving coroutine was destroyed for lack of memory.
  ~link();

  bool open() const noexcept { return open_; }
  void shut() noexcept {
    open_ = false;
    if (wire_) wire_->lowest().close();
  }
  void abort() noexcept {
    aborted_ = true;
    if (resolving_) resolving_->timer.cancel();
    if (sink_ != nullptr) sink_->wake();
    shut();
  }

  // Returns an empty optional if the connection is open.
  asio::awaitable<std::optional<exchange_failure>> connect();
  // Sends the request and receives the answer; the outcome is in `x`. False: send `x` again.
  asio::awaitable<bool> carry(exchange& x);
  // Mark the time from before carry() until the outcome is reported.
  void begin_carrying(exchange& x) noexcept;
  void end_carrying() noexcept;
  // Request that was sent ahead. This connection carries the request next, or another connection
  // if this one is closed.
  exchange* sent_ahead() const noexcept { return ahead_; }
  exchange* take_sent_ahead() noexcept { return std::exchange(ahead_, nullptr); }
  // Drops the answer of `x`. Returns false if `x` was not sent ahead.
  bool forget_ahead(const exchange& x) noexcept;

 private:
  const client_settings& settings() const noexcept { return pool_->settings; }
  asio::awaitable<std::optional<exchange_failure>> resolve(const std::string& host,
                                                           std::uint16_t port,
                                                           std::vector<tcp::endpoint>& out);
  asio::awaitable<std::optional<exchange_failure>> reach(
      const std::vector<tcp::endpoint>& endpoints);
  asio::awaitable<std::optional<exchange_failure>> tunnel();
  asio::awaitable<std::optional<exchange_failure>> shake_hands();
  asio::awaitable<std::optional<exchange_failure>> receive(exchange& x);
  asio::awaitable<std::optional<exchange_failure>> receive_sized(exchange& x,
                                                                 const body_place& place);
  asio::awaitable<std::optional<exchange_failure>> receive_parsed(exchange& x,
                                                                  const body_place& place,
                                                                  answer_parser& parser);
  asio::awaitable<void> send_ahead();
  asio::awaitable<std::optional<exchange_failure>> receive_stream(exchange& x, body_sink& sink);
  asio::awaitable<std::optional<std::span<std::byte>>> room_of(body_sink& sink);

  const std::shared_ptr<host_pool> pool_;
  std::optional<wire> wire_;
  beast::flat_buffer buffer_{unparsed_bytes_max};  // Received bytes before parsing.
  std::shared_ptr<resolution> resolving_;
  body_sink* sink_ = nullptr;  // Sink whose room() is awaited.
  exchange* ahead_ = nullptr;
  std::string ahead_request_;
  exchange* carried_ = nullptr;
  bool spoiled_ = false;     // The next answer on the connection was dropped.
  bool goes_ahead_ = false;  // The server keeps the connection open and supports ranges.
  bool open_ = false;
  bool aborted_ = false;
  bool used_ = false;  // The connection has carried a request.
  bool private_peer_ = false;
};

}  // namespace ringload::inline v0::remote_http
