// SPDX-License-Identifier: Apache-2.0
#pragma once

// Runs the requests of one transfer: follows redirects, waits, and retries, until the transfer_kind
// reports success or failure. Used by the HTTP client and by sources of objects. Only the network
// thread may call a function, unless the comment of the function states otherwise.

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

// The current address of an object, shared by all transfers of the object. Thread-safe.
class object_address {
 public:
  explicit object_address(remote_object target) : object(std::move(target)) {}

  const remote_object object;

  // Returns the address of the last redirect, or the object's own address.
  http_url current() const {
    const std::lock_guard lock(mutex_);
    return moved_.value_or(object.url);
  }
  void moved(const http_url& to) {
    const std::lock_guard lock(mutex_);
    moved_ = to;
  }
  void forget() {
    const std::lock_guard lock(mutex_);
    moved_.reset();
  }
  // Returns true if the object's own host has a private address. Returns an empty optional if this
  // is not known yet.
  std::optional<bool> is_private() const {
    const std::lock_guard lock(mutex_);
    return private_;
  }
  void set_private(bool value) {
    const std::lock_guard lock(mutex_);
    private_ = value;
  }

 private:
  mutable std::mutex mutex_;
  // The mutex guards the members below.
  std::optional<http_url> moved_;
  std::optional<bool> private_;
};

// Decides which requests a transfer sends, where the bytes are stored, and when the transfer is
// complete.
class transfer_kind {
 public:
  virtual ~transfer_kind() = default;

  virtual http_method method() const noexcept { return http_method::get; }
  // The body of each request, and its SHA-256 for the signature.
  virtual std::span<const std::byte> body() const noexcept { return {}; }
  virtual std::string_view body_sha256() const noexcept { return {}; }
  // Returns false if redirects to other origins are refused.
  virtual bool follows_redirects() const noexcept { return true; }
  // Returns the number of requests to the same server that will follow this request soon.
  virtual std::uint64_t followed_by() const noexcept { return 0; }
  virtual std::vector<header_field> fields() const = 0;  // Header fields of the next request.
  virtual body_target choose_target(const response_head& head) = 0;

  virtual void arrived(std::uint64_t bytes) = 0;
  enum class state : std::uint8_t { done, unfinished, failed };
  // Evaluates a response. Not called for a redirect that is followed. Not called for a status after
  // which a later request may succeed (response_kind::retryable, for example 503).
  virtual state evaluate(const response_head& head, fault& failure) = 0;
  // Evaluates a response of kind response_kind::retryable if no retry is left.
  virtual state evaluate_refused(const response_head& head, fault& failure) = 0;
};

class http_transfer : public std::enable_shared_from_this<http_transfer> {
 public:
  // `kind` must outlive the transfer.
  http_transfer(std::shared_ptr<net_thread> thread, std::shared_ptr<object_address> address,
                transfer_kind& kind)
      : thread_(std::move(thread)),
        address_(std::move(address)),
        kind_(kind),
        pause_(thread_->loop),
        deadline_(thread_->loop) {}

  bool awaited = false;
  transfer_counts* counts = nullptr;
  // If set, replaces client_settings::request_time_max.
  std::optional<std::chrono::milliseconds> time_max;
  bool was_repeated = false;  // True if run() has sent more than one request.

  // Makes the transfer end soon after `stop` is requested. The caller must call listen() before
  // run(), and at most once. May be called in any thread.
  void listen(const std::stop_token& stop);

  // ---- For the transfer_kind and the owner ----

  // Makes later stop requests ineffective.
  void stop_listening() { on_stop_.reset(); }
  void stop() noexcept;
  // renew_deadline() restarts both time limits: request_time_max and stall_time_max.
  // hold_deadline() suspends both limits.
  void renew_deadline() noexcept;
  void hold_deadline() { deadline_.cancel(); }

  // The caller must keep the transfer alive until completion.
  boost::asio::awaitable<result<void>> run();

 private:
  const client_settings& settings() const noexcept { return *thread_->settings; }
  std::chrono::milliseconds request_time_max() const noexcept {
    return time_max.value_or(settings().request_time_max);
  }
  // Returns the proxy for to_, or null.
  const http_url* proxy() const { return settings().proxy_for(to_.host, to_.port); }
  void abort() noexcept;
  // Returns the time at which the stall limit of the current server is reached.
  std::chrono::steady_clock::time_point stall_end() const noexcept;
  void watch_time() noexcept;
  std::optional<fault> end_reason() const;
  result<std::string> request_text();
  bool renew_credentials(unsigned status);
  // Returns true if to_ is not the object's own address.
  bool is_redirected() const noexcept;
  // Forgets the redirected address. Later requests of all transfers use the object's own address.
  void leave_redirect();
  // Counts a failure of a request that will be repeated. Leaves a redirected address if no
  // connection could be opened, or if two consecutive requests have failed.
  void count_target_failure(bool is_unconnected);
  result<origin> allowed_origin() const;
  boost::asio::awaitable<void> exchange_once(http_exchange& exchange, const origin& to);
  bool follows_redirects() const noexcept;
  boost::asio::awaitable<void> pause(std::chrono::milliseconds delay);
  body_target choose_target(const response_head& head);
  // The step after an exchange. If `end` is set, the transfer ends. Otherwise the next request is
  // sent after `delay`.
  struct next_step {
    std::optional<result<void>> end;
    std::chrono::milliseconds delay{0};
  };
  next_step after_failure(const http_exchange& exchange);
  next_step after_response(const http_exchange& exchange);
  next_step follow_redirect(const http_exchange& exchange);
  next_step retry_later(const http_exchange& exchange);
  next_step end_with(transfer_kind::state outcome, const fault& failure);

  const std::shared_ptr<net_thread> thread_;
  const std::shared_ptr<object_address> address_;
  transfer_kind& kind_;
  using callback = std::stop_callback<std::function<void()>>;
  std::optional<callback> on_stop_;

  boost::asio::steady_timer pause_;
  boost::asio::steady_timer deadline_;
  http_url to_;
  // True if to_ is a redirected address that an earlier transfer has stored.
  bool uses_known_redirect_ = false;
  std::uint32_t redirects_ = 0;
  std::uint64_t target_requests_ = 0;  // Requests to to_ since the last change of to_.
  std::uint32_t target_failures_ = 0;  // Consecutive failures of these requests.
  std::optional<retry_state> tries_;
  // The exchange that is in the queue or on a connection of pool_. Null if no exchange is in
  // progress.
  http_exchange* current_ = nullptr;
  host_pool* pool_ = nullptr;
  // Time of the start, or of the last renew_deadline().
  std::chrono::steady_clock::time_point start_time_ = {};
  // The stall limit counts from this time.
  std::chrono::steady_clock::time_point stall_begin_ = {};
  std::string last_failure_;  // Cause of the last failure after which the request was retried.
  std::chrono::steady_clock::time_point signed_at_ = {};  // When the last request was signed.
  bool renewed_ = false;  // True after the first attempt to renew the credentials.
  bool stopped_ = false;
  bool timed_out_ = false;  // The transfer has reached request_time_max.
  bool stalled_ = false;    // The transfer has reached stall_time_max.
};

// The completion handler of a transfer's coroutine. Calls `done` exactly once. If an Asio operation
// had no memory, the coroutine is destroyed early, and the outcome is memory_exceeded.
class transfer_handler {
 public:
  using function = std::function<void(const result<void>&)>;

  explicit transfer_handler(function done) : done_(std::move(done)) {}
  transfer_handler(transfer_handler&& from) noexcept : done_(std::exchange(from.done_, nullptr)) {}
  transfer_handler& operator=(transfer_handler&&) = delete;
  ~transfer_handler() {
    if (done_) (*this)(nullptr, fault{errc::memory_exceeded, ""});
  }

  // If `failed` is not null, the exception is std::bad_alloc, because the coroutine throws nothing
  // else.
  void operator()(const std::exception_ptr& failed, const result<void>& outcome) noexcept {
    const function done = std::exchange(done_, nullptr);
    if (failed) return done(fault{errc::memory_exceeded, ""});
    done(outcome);
  }

 private:
  function done_;
};

// Runs the transfer in the network thread. May be called in any thread. If no memory is left, calls
// `done` before returning.
void start(net_thread& thread, const std::shared_ptr<http_transfer>& task,
           transfer_handler::function done) noexcept;

// Returns the exception for a fault, or std::bad_alloc if there is no memory for the exception.
std::exception_ptr exception_of(const fault& failure) noexcept;

}  // namespace ringload::inline v0::remote_http
