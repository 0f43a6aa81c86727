// SPDX-License-Identifier: Apache-2.0
#pragma once

// A connection to one origin. Its making is in connection.cpp, what it carries in http_receive.cpp:
// the only sources that know Beast and TLS.

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
// Bytes that were received and not parsed: a header and the beginning of its body, the line before
// a chunk, or the trailers.
inline constexpr std::size_t unparsed_bytes_max = 128 << 10;

using answer_parser = http::response_parser<http::buffer_body>;

class link {
 public:
  explicit link(std::shared_ptr<host_pool> of) : pool_(std::move(of)) { pool_->enter(*this); }
  link(const link&) = delete;
  link& operator=(const link&) = delete;
  // What it still carries fails: the coroutine that served it was destroyed for lack of memory.
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

  // Empty: it is open.
  asio::awaitable<std::optional<exchange_failure>> connect();
  // Sends it and receives the answer; the outcome is in `x`. False: it is to be sent anew.
  asio::awaitable<bool> carry(exchange& x);
  // From before carry() until its outcome was told; null: nothing is carried.
  void begin_carrying(exchange& x) noexcept;
  void end_carrying() noexcept;
  // A request that was sent ahead, to be carried next, or elsewhere where this is not open any
  // more.
  exchange* sent_ahead() const noexcept { return ahead_; }
  exchange* take_sent_ahead() noexcept { return std::exchange(ahead_, nullptr); }
  // Its answer is not wanted any more. False: it was not sent ahead.
  bool forget_ahead(const exchange& x) noexcept;

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
  asio::awaitable<void> send_ahead();
  asio::awaitable<std::optional<exchange_failure>> receive_stream(exchange& x, body_sink& to);
  asio::awaitable<std::optional<std::span<std::byte>>> room_of(body_sink& to);

  const std::shared_ptr<host_pool> pool_;
  std::optional<wire> wire_;
  beast::flat_buffer buffer_{unparsed_bytes_max};  // Received and not parsed.
  std::shared_ptr<resolution> resolving_;
  body_sink* sink_ = nullptr;  // That is waited for.
  exchange* ahead_ = nullptr;
  std::string ahead_request_;
  exchange* carried_ = nullptr;
  bool spoiled_ = false;     // An answer comes that nobody wants.
  bool goes_ahead_ = false;  // The server keeps the connection, and gives ranges.
  bool open_ = false;
  bool aborted_ = false;
  bool used_ = false;  // It has carried an answer.
  bool private_peer_ = false;
};

}  // namespace ringload::inline v0::remote_http
