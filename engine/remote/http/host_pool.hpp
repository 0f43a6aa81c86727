// SPDX-License-Identifier: Apache-2.0
#pragma once

// The connections of one network thread to one origin, and the queue of exchanges with the origin.
// An exchange is a request and its response. http_transfer adds exchanges. Connections stay open
// between exchanges. Only the network thread may use a pool.

#include <boost/asio/awaitable.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "remote/http/http_exchange.hpp"
#include "remote/http/settings.hpp"

namespace ringload::inline v0::remote_http {

struct origin {
  bool tls = false;
  std::string host;
  std::uint16_t port = 0;
  bool public_only = false;  // If true, private addresses are refused: see is_private().

  friend bool operator<(const origin& a, const origin& b) {
    return std::tie(a.tls, a.host, a.port, a.public_only) <
           std::tie(b.tls, b.host, b.port, b.public_only);
  }
};

// Keeps a pointer to a timer in a list while this object exists. If the waiting coroutine is
// destroyed, the destructor runs too, so the list never has a pointer to a destroyed timer.
class listed_timer {
 public:
  using list = std::vector<boost::asio::steady_timer*>;

  listed_timer(list& timers, boost::asio::steady_timer& timer) : timers_(timers), timer_(&timer) {
    timers.push_back(&timer);
  }
  listed_timer(const listed_timer&) = delete;
  listed_timer& operator=(const listed_timer&) = delete;
  ~listed_timer() { std::erase(timers_, timer_); }

 private:
  list& timers_;
  boost::asio::steady_timer* const timer_;
};

class host_pool : public std::enable_shared_from_this<host_pool> {
 public:
  host_pool(boost::asio::io_context& event_loop, origin where, const client_settings& pool_settings)
      : loop(event_loop), to(std::move(where)), settings(pool_settings) {}

  boost::asio::io_context& loop;
  const origin to;
  const client_settings& settings;

  // Adds an exchange to the queue. After the exchange, the event loop calls `exchange.done` once.
  // The pool does not use `exchange` during or after the call of `done`.
  void add(http_exchange& exchange) noexcept;
  // Ends the exchange soon. Does nothing if the exchange has already ended.
  void cancel(http_exchange& exchange) noexcept;
  // Opens connections for `count` expected requests. Opens at most settings.connections.
  void prepare(std::uint64_t count) noexcept;
  // Ends all connections. The caller must not add exchanges afterwards.
  void close();

  // Time of the last progress. Each response, and each 64 KiB of sent or received bodies, counts as
  // progress.
  std::chrono::steady_clock::time_point progressed_at() const noexcept { return progressed_at_; }
  void note_bytes(std::uint64_t bytes) noexcept;
  void note_response() noexcept;

  // ---- For connections ----

  void register_connection(http_connection& connection) {
    registered_connections_.push_back(&connection);
  }
  void unregister_connection(http_connection& connection) noexcept {
    std::erase(registered_connections_, &connection);
  }
  // See connection_slot.
  void release_slot() noexcept;
  // Removes the next exchange from the queue. An exchange for which a caller waits is taken before
  // background exchanges. Returns null if the queue is empty.
  http_exchange* take();
  // Removes the next background exchange, so that a busy connection can send the request of this
  // exchange ahead. Returns null if no background exchange is queued, if the next one has a body,
  // or if there are enough free connections for all queued exchanges.
  http_exchange* take_to_send_ahead();
  void begin_exchange() noexcept { ++busy_connections_; }
  void end_exchange() noexcept { --busy_connections_; }
  bool has_work() const noexcept { return !awaited_.empty() || !background_.empty(); }
  // Waits for work. Returns false if the connection is no longer needed.
  boost::asio::awaitable<bool> wait();
  void put_back(http_exchange& exchange) noexcept;
  void end(http_exchange& exchange) noexcept;
  // Adds the timer of a connection that waits until the caller reads more of the response body. The
  // pool cancels the timer if another exchange needs the connection.
  listed_timer park(boost::asio::steady_timer& timer) { return {parked_, timer}; }

 private:
  void fail(http_exchange& exchange) noexcept;
  void find_connection();
  void connect(bool connect_early);
  // Wakes an idle connection. If no connection is idle, wakes a connection that waits for its
  // caller: see park(). Returns false if the pool has neither kind of connection.
  bool wake_connection() noexcept;

  std::deque<http_exchange*> awaited_;
  std::deque<http_exchange*> background_;
  listed_timer::list idle_;    // Timers of connections that wait for work.
  listed_timer::list parked_;  // See park().
  std::vector<http_connection*> registered_connections_;  // In the order of their creation.
  std::uint32_t connections_ = 0;                         // At most settings.connections.
  std::uint32_t busy_connections_ = 0;  // Number of connections with a request in progress.
  bool closing_ = false;
  std::chrono::steady_clock::time_point progressed_at_ = {};
  std::uint64_t bytes_since_progress_ = 0;
};

// RAII guard that counts one connection in connections_. The destructor also runs if the coroutine
// of the connection is destroyed because an Asio operation had no memory.
class connection_slot {
 public:
  explicit connection_slot(std::shared_ptr<host_pool> pool) noexcept : pool_(std::move(pool)) {}
  connection_slot(connection_slot&&) noexcept = default;
  connection_slot& operator=(connection_slot&&) = delete;
  ~connection_slot() {
    if (pool_) pool_->release_slot();
  }

  const std::shared_ptr<host_pool>& pool() const noexcept { return pool_; }

 private:
  std::shared_ptr<host_pool> pool_;
};

// Runs a connection from beginning to end: see http_connection.hpp. Connects only when a request
// waits, unless `connect_early` is set.
boost::asio::awaitable<void> serve(connection_slot slot, bool connect_early);
void abort(http_connection& connection) noexcept;
// Drops the response to `exchange`. Returns false if the request of `exchange` was not sent ahead
// on this connection. http_receive.cpp explains requests that are sent ahead.
bool drop_sent_ahead(http_connection& connection, const http_exchange& exchange) noexcept;

}  // namespace ringload::inline v0::remote_http
