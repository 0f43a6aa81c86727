// SPDX-License-Identifier: Apache-2.0
#pragma once

// One thing that is wanted of a server, and all requests that it takes: redirects, waits and
// repetitions until it is there, or cannot be had. In a lane's thread, but where it says otherwise.

#include <atomic>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <ringload/byte_source.hpp>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

#include "remote/http/http.hpp"
#include "remote/http/http_exchange.hpp"
#include "remote/http/net_thread.hpp"

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
  void renew_deadline() noexcept;
  void hold_deadline() { deadline_.cancel(); }

  // Keep it alive meanwhile.
  boost::asio::awaitable<result<void>> run();

 private:
  const client_settings& how() const noexcept { return *lane_->how; }
  void abort() noexcept;
  // When the server that is asked now would have stalled for too long.
  std::chrono::steady_clock::time_point stall_end() const noexcept;
  void watch_time() noexcept;
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
  std::chrono::steady_clock::time_point begun_ = {};        // Or renewed.
  std::chrono::steady_clock::time_point stall_begin_ = {};  // Earlier, no stall is counted.
  std::string last_failure_;                                // Of a request that was made again.
  bool stopped_ = false;
  bool late_ = false;
  bool stalled_ = false;
};

// The handler of a transfer's coroutine. Called once: if the coroutine is destroyed before its end,
// because an operation of Asio's had no memory, with memory_exceeded.
class transfer_handler {
 public:
  using function = std::function<void(const result<void>&)>;

  explicit transfer_handler(function done) : done_(std::move(done)) {}
  transfer_handler(transfer_handler&& from) noexcept : done_(std::exchange(from.done_, nullptr)) {}
  transfer_handler& operator=(transfer_handler&&) = delete;
  ~transfer_handler() {
    if (done_) (*this)(nullptr, fault{errc::memory_exceeded, ""});
  }

  // The coroutine throws std::bad_alloc only.
  void operator()(const std::exception_ptr& failed, const result<void>& outcome) noexcept {
    const function done = std::exchange(done_, nullptr);
    done(failed ? result<void>(fault{errc::memory_exceeded, ""}) : outcome);
  }

 private:
  function done_;
};

// Runs it in its lane's thread. Without memory for that, `done` is called before this returns.
void start(lane& on, const std::shared_ptr<transfer>& one,
           transfer_handler::function done) noexcept;

// std::bad_alloc if there is no memory for the error.
std::exception_ptr exception_of(const fault& why) noexcept;

}  // namespace ringload::inline v0::remote_http
