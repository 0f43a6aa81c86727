// SPDX-License-Identifier: Apache-2.0
#pragma once

// One thing that is wanted of a server, and all requests that it takes: redirects, waits and
// repetitions until it is there, or cannot be had. In a lane's thread, but where it says otherwise.

#include <atomic>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/steady_timer.hpp>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <ringload/byte_source.hpp>
#include <stop_token>
#include <string>
#include <vector>

#include "remote/exchange.hpp"
#include "remote/http.hpp"
#include "remote/lane.hpp"

namespace ringload::inline v0::remote_http {

// Where an object is found at present, for all its transfers. Any thread.
class object_address {
 public:
  explicit object_address(remote_object of) : what(std::move(of)) {}

  const remote_object what;

  // Where it was redirected to, or its own address.
  http_url current() const;
  void moved(const http_url& to);
  void forget();
  // Whether its own host is in a private network, once that is known.
  std::optional<bool> is_private() const;
  void set_private(bool it_is);

 private:
  mutable std::mutex mutex_;
  // Guarded by the mutex.
  std::optional<http_url> moved_;
  std::optional<bool> private_;
};

// What a transfer wants: how it asks, where bytes go, and when it is content.
class transfer_goal {
 public:
  virtual ~transfer_goal() = default;

  virtual bool head() const noexcept { return false; }
  virtual bool follows() const noexcept { return true; }  // To other origins.
  // How many requests will follow to where this one succeeds, at once.
  virtual std::uint64_t followed_by() const noexcept { return 0; }
  virtual std::vector<header_field> fields() const = 0;  // Of the next request.
  virtual body_place place(const answer_head& head) = 0;

  // What came of a request, also of one that failed on its way: so much of its body is in place.
  virtual void arrived(std::uint64_t bytes) = 0;
  enum class state : std::uint8_t { done, unfinished, failed };
  // Of an answer that is no redirect, and none that says "later".
  virtual state settle(const answer_head& head, fault& why) = 0;
  // "Later" was said for the last time.
  virtual state settle_refused(const answer_head& head, fault& why) = 0;
};

class transfer : public std::enable_shared_from_this<transfer> {
 public:
  // The goal outlives the transfer.
  transfer(std::shared_ptr<lane> on, std::shared_ptr<object_address> of, transfer_goal& goal)
      : lane_(std::move(on)),
        of_(std::move(of)),
        goal_(goal),
        pause_(lane_->loop),
        deadline_(lane_->loop) {}

  bool awaited = false;
  transfer_counts* counts = nullptr;

  // Once, before run(); any thread. What is requested there ends the transfer soon.
  void listen(const std::stop_token& stop);

  // ---- For its goal, and who owns both; in the lane's thread ----

  // What was listened to ends it no more.
  void stop_listening() { on_stop_.reset(); }
  void stop() noexcept;
  // The time that is allowed for all of it begins anew; it is not limited.
  void renew_deadline();
  void hold_deadline() { deadline_.cancel(); }

  // Keep it alive meanwhile.
  boost::asio::awaitable<result<void>> run();

 private:
  const client_settings& how() const noexcept { return *lane_->how; }
  void abort() noexcept;
  std::optional<fault> over() const;
  result<std::string> request_text() const;
  result<origin> where() const;
  boost::asio::awaitable<void> exchange_once(exchange& x, const origin& to);
  boost::asio::awaitable<void> pause(std::chrono::milliseconds delay);
  body_place place(const answer_head& head);
  // What follows from an answer: empty, another request; else the end.
  struct next_step {
    std::optional<result<void>> end;
    std::chrono::milliseconds delay{0};
  };
  next_step after_failure(const exchange& x);
  next_step after_answer(const exchange& x);
  next_step redirect(const exchange& x);
  next_step later(const exchange& x);
  next_step end_with(transfer_goal::state how_it_is, const fault& why);

  const std::shared_ptr<lane> lane_;
  const std::shared_ptr<object_address> of_;
  transfer_goal& goal_;
  using callback = std::stop_callback<std::function<void()>>;
  std::optional<callback> on_stop_;

  boost::asio::steady_timer pause_;
  boost::asio::steady_timer deadline_;
  http_url to_;
  bool from_memory_ = false;  // to_ is where an earlier transfer was redirected to.
  std::uint32_t redirects_ = 0;
  std::optional<retry_state> tries_;
  exchange* current_ = nullptr;  // With the pool that it is in.
  host_pool* pool_ = nullptr;
  bool stopped_ = false;
  bool late_ = false;
};

}  // namespace ringload::inline v0::remote_http
