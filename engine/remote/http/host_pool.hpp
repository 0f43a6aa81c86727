// SPDX-License-Identifier: Apache-2.0
#pragma once

// The connections of one lane to one origin, kept alive between requests, and the requests that
// wait for one. In the lane's thread only.

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
  bool public_only = false;  // No address that is_private() is connected to.

  friend bool operator<(const origin& a, const origin& b) {
    return std::tie(a.tls, a.host, a.port, a.public_only) <
           std::tie(b.tls, b.host, b.port, b.public_only);
  }
};

// A timer in a list, as long as this lives: also if the coroutine that waits for it is destroyed.
class listed_timer {
 public:
  using list = std::vector<boost::asio::steady_timer*>;

  listed_timer(list& among, boost::asio::steady_timer& one) : among_(among), one_(&one) {
    among.push_back(&one);
  }
  listed_timer(const listed_timer&) = delete;
  listed_timer& operator=(const listed_timer&) = delete;
  ~listed_timer() { std::erase(among_, one_); }

 private:
  list& among_;
  boost::asio::steady_timer* const one_;
};

class host_pool : public std::enable_shared_from_this<host_pool> {
 public:
  host_pool(boost::asio::io_context& on, origin where, const client_settings& with)
      : loop(on), to(std::move(where)), how(with) {}

  boost::asio::io_context& loop;
  const origin to;
  const client_settings& how;

  // Calls `x.done` once, later, when nothing touches its memory any more.
  void add(exchange& x) noexcept;
  // It ends soon, if it has not yet.
  void cancel(exchange& x) noexcept;
  // So many connections are made, within what is allowed, as requests will follow.
  void prepare(std::uint64_t count) noexcept;
  // Ends all connections; nothing is added any more.
  void close();

  // When the server last answered a request, or had brought 64 KiB since the time before.
  std::chrono::steady_clock::time_point progressed_at() const noexcept { return progressed_at_; }
  void note_bytes(std::uint64_t bytes) noexcept;
  void note_answer() noexcept;

  // ---- For connections ----

  void enter(link& one) { links_.insert(&one); }
  void leave(link& one) noexcept { links_.erase(&one); }
  // A connection was given up or has ended: see connection_slot.
  void release_slot() noexcept;
  // The next that waits, awaited ones first; null: there is none.
  exchange* take();
  // The next that no free connection comes for; null: there is none.
  exchange* take_ahead();
  void begin_carrying() noexcept { ++carrying_; }
  void end_carrying() noexcept { --carrying_; }
  bool has_work() const noexcept { return !awaited_.empty() || !others_.empty(); }
  // Until there may be work. False: the connection is not needed any more.
  boost::asio::awaitable<bool> wait();
  void put_back(exchange& x) noexcept;
  void end(exchange& x) noexcept;
  // It is kept by a body that nobody reads on. The timer is cancelled once another needs it.
  listed_timer park(boost::asio::steady_timer& one) { return {parked_, one}; }

 private:
  void fail(exchange& x) noexcept;
  void call_for_help();
  void connect(bool at_once);

  std::deque<exchange*> awaited_;
  std::deque<exchange*> others_;
  listed_timer::list idle_;  // Of connections that wait for work.
  listed_timer::list parked_;
  std::set<link*> links_;
  std::uint32_t connections_ = 0;  // At most how.connections.
  std::uint32_t carrying_ = 0;     // Of these.
  bool closing_ = false;
  std::chrono::steady_clock::time_point progressed_at_ = {};
  std::uint64_t bytes_since_progress_ = 0;
};

// One of a pool's connections, from the moment that it is counted. If its coroutine is destroyed
// before its end, because an operation of Asio's had no memory, the count is right all the same.
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

// A connection from its beginning to its end, and what it carries: see http_connection.hpp.
// It is made at once, or where work still waits for it.
boost::asio::awaitable<void> serve(connection_slot slot, bool at_once);
// Ends what the connection is doing.
void abort(link& one) noexcept;
// Whether it was sent ahead there. Its answer is not wanted any more.
bool forget_ahead(link& one, const exchange& x) noexcept;

}  // namespace ringload::inline v0::remote_http
