// SPDX-License-Identifier: Apache-2.0
#pragma once

// The connections of one lane to one origin, which stay open between requests, and the queue of
// requests. Only the lane's thread may use a pool.

#include <boost/asio/awaitable.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <cstdint>
#include <deque>
#include <memory>
#include <set>
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
  bool public_only = false;  // Connections to addresses that are is_private() are refused.

  friend bool operator<(const origin& a, const origin& b) {
    return std::tie(a.tls, a.host, a.port, a.public_only) <
           std::tie(b.tls, b.host, b.port, b.public_only);
  }
};

// Keeps a timer in a list while this object lives, also if the waiting coroutine is destroyed.
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
  host_pool(boost::asio::io_context& on, origin where, const client_settings& pool_settings)
      : loop(on), to(std::move(where)), settings(pool_settings) {}

  boost::asio::io_context& loop;
  const origin to;
  const client_settings& settings;

  // Calls `x.done` once, asynchronously, after the last access to the memory of `x`.
  void add(exchange& x) noexcept;
  // Ends the exchange soon if the exchange has not ended yet.
  void cancel(exchange& x) noexcept;
  // Opens connections for `count` expected requests, within the limit.
  void prepare(std::uint64_t count) noexcept;
  // Ends all connections. No exchange may be added afterwards.
  void close();

  // Time of the last progress: an answer, or 64 KiB since the previous progress.
  std::chrono::steady_clock::time_point progressed_at() const noexcept { return progressed_at_; }
  void note_bytes(std::uint64_t bytes) noexcept;
  void note_answer() noexcept;

  // ---- For connections ----

  void enter(link& connection) { links_.insert(&connection); }
  void leave(link& connection) noexcept { links_.erase(&connection); }
  // Called when a connection was cancelled or has ended: see connection_slot.
  void release_slot() noexcept;
  // Removes the next waiting exchange, awaited exchanges first. Null: the queues are empty.
  exchange* take();
  // Removes the next exchange for which no connection is free. Null: no such exchange.
  exchange* take_ahead();
  void begin_carrying() noexcept { ++carrying_; }
  void end_carrying() noexcept { --carrying_; }
  bool has_work() const noexcept { return !awaited_.empty() || !background_.empty(); }
  // Waits for work. False: the connection is no longer needed.
  boost::asio::awaitable<bool> wait();
  void put_back(exchange& x) noexcept;
  void end(exchange& x) noexcept;
  // Lists the timer of a connection whose body is not being read. The pool cancels the timer if
  // another exchange needs the connection.
  listed_timer park(boost::asio::steady_timer& timer) { return {parked_, timer}; }

 private:
  void fail(exchange& x) noexcept;
  void call_for_help();
  void connect(bool at_once);

  std::deque<exchange*> awaited_;
  std::deque<exchange*> background_;
  listed_timer::list idle_;  // Timers of connections that wait for work.
  listed_timer::list parked_;
  std::set<link*> links_;
  std::uint32_t connections_ = 0;  // At most settings.connections.
  std::uint32_t carrying_ = 0;     // Connections with a request in progress.
  bool closing_ = false;
  std::chrono::steady_clock::time_point progressed_at_ = {};
  std::uint64_t bytes_since_progress_ = 0;
};

// Holds the count of one connection of a pool. The count stays right if the connection's coroutine
// is destroyed early, because an operation of Asio had no memory.
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

// Runs a connection from beginning to end: see http_connection.hpp. Connects at once if `at_once`
// is set, else only if work waits.
boost::asio::awaitable<void> serve(connection_slot slot, bool at_once);
// Ends the current operation of the connection.
void abort(link& connection) noexcept;
// Drops the answer of `x` if `x` was sent ahead on this connection. Returns false if not.
bool forget_ahead(link& connection, const exchange& x) noexcept;

}  // namespace ringload::inline v0::remote_http
