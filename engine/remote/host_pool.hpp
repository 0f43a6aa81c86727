// SPDX-License-Identifier: Apache-2.0
#pragma once

// The connections of one lane to one origin, kept alive between requests, and the requests that
// wait for one. In the lane's thread only.

#include <boost/asio/awaitable.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <cstdint>
#include <deque>
#include <memory>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "remote/exchange.hpp"
#include "remote/settings.hpp"

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

class host_pool : public std::enable_shared_from_this<host_pool> {
 public:
  host_pool(boost::asio::io_context& on, origin where, const client_settings& with)
      : loop(on), to(std::move(where)), how(with) {}

  boost::asio::io_context& loop;
  const origin to;
  const client_settings& how;

  // Calls `x.done` once, later, when nothing touches its memory any more.
  void add(exchange& x);
  // It ends soon, if it has not yet.
  void cancel(exchange& x);
  // So many connections are made, within what is allowed, as requests will follow.
  void prepare(std::uint64_t count);
  // Ends all connections; nothing is added any more.
  void close();

  // ---- For connections ----

  void enter(link& one) { links_.insert(&one); }
  void leave(link& one) noexcept;
  // The next that waits, awaited ones first; null: there is none.
  exchange* take();
  // The next that no free connection comes for; null: there is none.
  exchange* take_ahead();
  void begin_carrying() noexcept { ++carrying_; }
  void end_carrying() noexcept { --carrying_; }
  bool has_work() const noexcept { return !awaited_.empty() || !others_.empty(); }
  // Until there may be work. False: the connection is not needed any more.
  boost::asio::awaitable<bool> wait();
  void put_back(exchange& x);
  void end(exchange& x);
  // It is kept by a body that nobody reads on. The timer is cancelled once another needs it.
  void park(boost::asio::steady_timer& one) { parked_.push_back(&one); }
  void unpark(boost::asio::steady_timer& one) noexcept { std::erase(parked_, &one); }

 private:
  void call_for_help();
  void connect(bool at_once);

  std::deque<exchange*> awaited_;
  std::deque<exchange*> others_;
  std::vector<boost::asio::steady_timer*> idle_;  // Of connections that wait for work.
  std::vector<boost::asio::steady_timer*> parked_;
  std::set<link*> links_;
  std::uint32_t connections_ = 0;  // At most how.connections.
  std::uint32_t carrying_ = 0;     // Of these.
  bool closing_ = false;
};

// A connection from its beginning to its end, and what it carries: see link.hpp.
// It is made at once, or where work still waits for it.
boost::asio::awaitable<void> serve(std::shared_ptr<host_pool> pool, bool at_once);
// Ends what the connection is doing.
void abort(link& one) noexcept;
// Whether it was sent ahead there. Its answer is not wanted any more.
bool forget_ahead(link& one, const exchange& x) noexcept;

}  // namespace ringload::inline v0::remote_http
