// SPDX-License-Identifier: Apache-2.0
#pragma once

// A transfer is one goal and all its requests: redirects, waits and retries until the goal is
// reached or fails. Only the lane's thread may call a function, unless its comment says otherwise.

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

// The current address of an object, shared by all its transfers. Thread-safe.
class object_address {
 public:
  explicit object_address(remote_object target) : object(std::move(target)) {}

  const remote_object object;

  // The address of the last redirect, or the object's own address.
  http_url current() const;
  void moved(const http_url& to);
  void forget();
  // Whether the object's own host is in a private network; empty: not known yet.
  std::optional<bool> is_private() const;
  void set_private(bool value);

 private:
  mutable std::mutex mutex_;
  // Guarded by the mutex.
  std::optional<http_url> moved_;
  std::optional<bool> private_;
};

// The goal of a transfer: its requests, the destination of bytes, and the condition of success.
class transfer_goal {
 public:
  virtual ~transfer_goal() = default;

  virtual bool head() const noexcept { return false; }
  virtual bool follows() const noexcept { return true; }  // Redirects to other origins.
  // Number of requests that will follow at once to the server of this one.
  virtual std::uint64_t followed_by() const noexcept { return 0; }
  virtual std::vector<header_field> fields() const = 0;  // Fields of the next request.
  virtual body_place place(const answer_head& head) = 0;

  // Reports that `bytes` bytes of the body are in place, also if the request failed.
  virtual void arrived(std::uint64_t bytes) = 0;
  enum class state : std::uint8_t { done, unfinished, failed };
  // Evaluates an answer that is neither a redirect nor a request to try later (429, 503).
  virtual state settle(const answer_head& head, fault& failure) = 0;
  // Evaluates an answer that asks to try later (429, 503) when no retry is left.
  virtual state settle_refused(const answer_head& head, fault& failure) = 0;
};

class transfer : public std::enable_shared_from_this<transfer> {
 public:
  // The goal must outlive the transfer.
  transfer(std::shared_ptr<lane> on, std::shared_ptr<object_address> address, transfer_goal& goal)
      : lane_(std::move(on)),
        address_(std::move(address)),
        goal_(goal),
        pause_(lane_->loop),
        deadline_(lane_->loop) {}

  bool awaited = false;
  transfer_counts* counts = nullptr;

  // Call once, before run(), from any thread. A stop request ends the transfer soon.
  void listen(const std::stop_token& stop);

  // ---- For the goal and the owner, in the lane's thread ----

  // Later stop requests do not end the transfer.
  void stop_listening() { on_stop_.reset(); }
  void stop() noexcept;
  // renew_deadline() restarts the time limit; hold_deadline() suspends the time limit.
  void renew_deadline() noexcept;
  void hold_deadline() { deadline_.cancel(); }

  // The caller must keep the transfer alive until completion.
  boost::asio::awaitable<result<void>> run();

 private:
  const client_settings& settings() const noexcept { return *lane_->settings; }
  void abort() noexcept;
  // Time at which the stall limit of the current server is reached.
  std::chrono::steady_clock::time_point stall_end() const noexcept;
  void watch_time() noexcept;
  std::optional<fault> over() const;
  result<std::string> request_text() const;
  result<origin> where() const;
  boost::asio::awaitable<void> exchange_once(exchange& x, const origin& to);
  boost::asio::awaitable<void> pause(std::chrono::milliseconds delay);
  body_place place(const answer_head& head);
  // The step after an answer. Empty `end`: another request; else the transfer ends.
  struct next_step {
    std::optional<result<void>> end;
    std::chrono::milliseconds delay{0};
  };
  next_step after_failure(const exchange& x);
  next_step after_answer(const exchange& x);
  next_step redirect(const exchange& x);
  next_step later(const exchange& x);
  next_step end_with(transfer_goal::state outcome, const fault& failure);

  const std::shared_ptr<lane> lane_;
  const std::shared_ptr<object_address> address_;
  transfer_goal& goal_;
  using callback = std::stop_callback<std::function<void()>>;
  std::optional<callback> on_stop_;

  boost::asio::steady_timer pause_;
  boost::asio::steady_timer deadline_;
  http_url to_;
  bool from_memory_ = false;  // to_ is the redirected address of an earlier transfer.
  std::uint32_t redirects_ = 0;
  std::optional<retry_state> tries_;
  exchange* current_ = nullptr;  // In the queue or on a connection of pool_.
  host_pool* pool_ = nullptr;
  std::chrono::steady_clock::time_point begun_ = {};        // Start, or last renew_deadline().
  std::chrono::steady_clock::time_point stall_begin_ = {};  // Stalls count from this time.
  std::string last_failure_;                                // Failure of a retried request.
  bool stopped_ = false;
  bool late_ = false;
  bool stalled_ = false;
};

// The handler of a transfer's coroutine, which calls `done` exactly once. If the coroutine is
// destroyed early, because an operation of Asio had no memory, the outcome is memory_exceeded.
class transfer_handler {
 public:
  using function = std::function<void(const result<void>&)>;

  explicit transfer_handler(function done) : done_(std::move(done)) {}
  transfer_handler(transfer_handler&& from) noexcept : done_(std::exchange(from.done_, nullptr)) {}
  transfer_handler& operator=(transfer_handler&&) = delete;
  ~transfer_handler() {
    if (done_) (*this)(nullptr, fault{errc::memory_exceeded, ""});
  }

  // The coroutine throws only std::bad_alloc.
  void operator()(const std::exception_ptr& failed, const result<void>& outcome) noexcept {
    const function done = std::exchange(done_, nullptr);
    done(failed ? result<void>(fault{errc::memory_exceeded, ""}) : outcome);
  }

 private:
  function done_;
};

// Runs the transfer in the lane's thread. If memory is missing, calls `done` before returning.
void start(lane& on, const std::shared_ptr<transfer>& task,
           transfer_handler::function done) noexcept;

// Returns std::bad_alloc if there is no memory for the error.
std::exception_ptr exception_of(const fault& failure) noexcept;

}  // namespace ringload::inline v0::remote_http
