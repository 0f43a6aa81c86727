// SPDX-License-Identifier: Apache-2.0

#include "remote/http/http_transfer.hpp"

#include <algorithm>
#include <boost/asio/async_result.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/error.hpp>
#include <boost/asio/ip/address.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <chrono>
#include <new>
#include <utility>

#include "base/retry_allocation.hpp"
#include "remote/http/address.hpp"

namespace ringload::inline v0::remote_http {

namespace asio = boost::asio;
using std::chrono::milliseconds;

namespace {

struct start_exchange {
  template <class Handler>
  void operator()(Handler&& handler, host_pool* pool, http_exchange* exchange) const {
    exchange->done.emplace(std::forward<Handler>(handler));
    pool->add(*exchange);
  }
};

bool clean(const header_field& field) noexcept {
  const auto forbidden = [](char c) { return c == '\r' || c == '\n' || c == '\0'; };
  return !field.name.empty() && std::ranges::none_of(field.name, forbidden) &&
         std::ranges::none_of(field.value, forbidden);
}

std::optional<milliseconds> wanted_delay(const response_head& head) {
  const std::string* const text = head.field("retry-after");
  if (text == nullptr) return std::nullopt;
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return parse_retry_after(*text, std::chrono::duration_cast<std::chrono::seconds>(now).count());
}

fault remote_fault(std::string cause) { return {errc::remote_failed, "", std::move(cause)}; }

}  // namespace

void http_transfer::listen(const std::stop_token& stop) {
  on_stop_.emplace(stop, [weak = weak_from_this(), thread = thread_] {
    const auto end = [weak] {
      const auto self = weak.lock();
      if (self) self->stop();
    };
    retry_allocation([&] { asio::post(thread->loop, end); });
  });
}

void http_transfer::stop() noexcept {
  stopped_ = true;
  abort();
}

void http_transfer::abort() noexcept {
  pause_.cancel();
  if (current_ != nullptr) pool_->cancel(*current_);
}

void http_transfer::renew_deadline() noexcept {
  start_time_ = stall_begin_ = std::chrono::steady_clock::now();
  watch_time();
}

std::chrono::steady_clock::time_point http_transfer::stall_end() const noexcept {
  const auto progressed = pool_ == nullptr ? stall_begin_ : pool_->progressed_at();
  return std::max(stall_begin_, progressed) + settings().stall_time_max;
}

// Starts a timer for the earlier of the two time limits. Progress of other requests to the same
// server extends the stall limit.
void http_transfer::watch_time() noexcept {
  const auto request_end = start_time_ + request_time_max();
  deadline_.expires_at(std::min(request_end, stall_end()));
  const auto look = [weak = weak_from_this(), request_end](const boost::system::error_code& ended) {
    const auto self = weak.lock();
    if (ended || !self) return;
    const auto now = std::chrono::steady_clock::now();
    self->timed_out_ = now >= request_end;
    self->stalled_ = now >= self->stall_end();
    if (self->timed_out_ || self->stalled_) return self->abort();
    self->watch_time();
  };
  retry_allocation([&] { deadline_.async_wait(look); });
}

std::optional<fault> http_transfer::end_reason() const {
  if (stopped_) return fault(asio::error::operation_aborted, "");
  if (stalled_ && !timed_out_) {
    return fault(errc::remote_failed, "",
                 "the server sent less than 64 KiB in " +
                     grouped(static_cast<std::uint64_t>(settings().stall_time_max.count())) +
                     " ms" + (last_failure_.empty() ? "" : ": " + last_failure_));
  }
  if (!timed_out_) return std::nullopt;
  return fault(errc::remote_failed, "",
               "the request was not complete after " +
                   grouped(static_cast<std::uint64_t>(request_time_max().count())) +
                   " ms (remote_options::request_time_max)");
}

result<origin> http_transfer::allowed_origin() const {
  if (!settings().hosts.empty() &&
      std::ranges::find(settings().hosts, to_.host) == settings().hosts.end()) {
    return fault(errc::access_denied, "",
                 "the host '" + to_.host + "' is not in remote_options::hosts");
  }
  const bool same_origin = to_.same_origin(address_->object.url);
  const bool guarded =
      !same_origin && !settings().private_redirects && !address_->is_private().value_or(false);
  if (guarded && proxy() && names_private(to_.host) && !names_private(address_->object.url.host)) {
    return remote_fault(
        "the request was redirected to an address of this machine or of a private network, which "
        "is not "
        "followed (remote_options::private_redirects)");
  }
  return origin{to_.tls, to_.host, to_.port, guarded};
}

result<std::string> http_transfer::request_text() {
  std::vector<header_field> fields = kind_.fields();
  const std::string_view method = name(kind_.method());
  if (address_->object.sign && to_.same_origin(address_->object.url)) {
    signed_at_ = std::chrono::steady_clock::now();
    auto more = address_->object.sign({method, to_, fields, kind_.body_sha256()});
    std::ranges::move(more, std::back_inserter(fields));
  }
  const bool absolute = proxy() != nullptr && !to_.tls;
  std::string out = std::string(method) + " " +
                    (absolute ? "http://" + to_.authority() + to_.target : to_.target) +
                    " HTTP/1.1\r\nHost: " + to_.authority() +
                    "\r\nUser-Agent: ringload\r\nAccept: */*\r\nAccept-Encoding: identity\r\n";
  if (absolute) out += proxy_fields(settings());
  if (kind_.method() == http_method::put || kind_.method() == http_method::post) {
    out += "Content-Length: " + std::to_string(kind_.body().size()) + "\r\n";
  }
  for (const header_field& field : fields) {
    if (!clean(field))
      return fault{errc::invalid_source_name, "", "a header field of the request is invalid"};
    out += field.name + ": " + field.value + "\r\n";
  }
  return out + "\r\n";
}

asio::awaitable<void> http_transfer::exchange_once(http_exchange& exchange, const origin& to) {
  struct current_exchange {
    explicit current_exchange(http_exchange*& place) noexcept : current(place) {}
    current_exchange(const current_exchange&) = delete;
    current_exchange& operator=(const current_exchange&) = delete;
    ~current_exchange() { current = nullptr; }
    http_exchange*& current;
  };
  const current_exchange until_it_ends(current_);
  host_pool& pool = thread_->pool_for(to);
  pool_ = &pool;
  current_ = &exchange;
  // Opens more connections for later requests while this request waits for its response.
  if (redirects_ > 0 || uses_known_redirect_ || !address_->object.moves)
    pool.prepare(kind_.followed_by());
  co_await asio::async_initiate<const asio::use_awaitable_t<>, void()>(
      start_exchange(), asio::use_awaitable, &pool, &exchange);
}

asio::awaitable<void> http_transfer::pause(milliseconds delay) {
  boost::system::error_code ignored;
  pause_.expires_after(delay);
  co_await pause_.async_wait(asio::redirect_error(asio::use_awaitable, ignored));
}

// Stores the redirected address for later requests if the response is successful.
body_target http_transfer::choose_target(const response_head& head) {
  const response_kind kind = kind_of(head);
  if (kind == response_kind::redirect) return {};
  const bool succeeded = kind == response_kind::partial || kind == response_kind::whole;
  if (succeeded && redirects_ > 0) address_->moved(to_);
  return kind_.choose_target(head);
}

asio::awaitable<result<void>> http_transfer::run() {
  result<void> ended;
  to_ = address_->current();
  uses_known_redirect_ = is_redirected();
  tries_.emplace(settings().retries);
  renew_deadline();
  for (std::uint64_t requests = 0;; ++requests) {
    if (auto failure = end_reason()) {
      ended = *failure;
      break;
    }
    auto to = allowed_origin();
    auto text = to ? request_text() : result<std::string>(to.error());
    if (!text) {
      ended = text.error();
      break;
    }
    if (counts) ++counts->requests;
    if (counts && requests > 0) ++counts->retries;
    http_exchange exchange;
    exchange.request = std::move(*text);
    exchange.body = kind_.body();
    exchange.head = kind_.method() == http_method::head;
    exchange.awaited = awaited;
    exchange.choose_target = [this](const response_head& head) { return choose_target(head); };
    co_await exchange_once(exchange, *to);
    was_repeated = was_repeated || requests > 0 || exchange.repeated;
    ++target_requests_;
    if (exchange.arrived >= retry_state::progress_bytes) target_failures_ = 0;
    kind_.arrived(exchange.arrived);
    if (!exchange.failure) pool_->note_response();
    if (exchange.response.status != 0 && to_.same_origin(address_->object.url) && !proxy()) {
      address_->set_private(exchange.private_peer);
    }
    next_step next = exchange.failure ? after_failure(exchange) : after_response(exchange);
    if (next.end) {
      ended = std::move(*next.end);
      break;
    }
    if (next.delay.count() > 0 && !end_reason()) co_await pause(next.delay);
  }
  deadline_.cancel();
  on_stop_.reset();
  co_return ended;
}

http_transfer::next_step http_transfer::after_failure(const http_exchange& exchange) {
  next_step out;
  if (end_reason()) return out;
  tries_->progressed(exchange.arrived);
  const auto delay =
      exchange.failure->final ? std::nullopt : tries_->failed(thread_->random_fraction());
  if (delay) {
    count_target_failure(exchange.failure->is_unconnected);
    last_failure_ = exchange.failure->reason.cause();
    out.delay = *delay;
    return out;
  }
  fault failure = exchange.failure->reason;
  if (!exchange.failure->final) {
    failure = {failure.code, failure.where(),
               failure.cause() + " (" + grouped(tries_->failures()) + " times in a row)"};
  }
  out.end = result<void>(std::move(failure));
  return out;
}

// Returns true if the request must be repeated with other credentials. A transfer tries to renew
// the credentials at most once.
bool http_transfer::renew_credentials(unsigned status) {
  // Amazon answers 400 if a token has expired.
  const bool is_refused = status == 400 || status == 401 || status == 403;
  const remote_object& object = address_->object;
  if (!is_refused || renewed_ || !object.renew || !to_.same_origin(object.url)) return false;
  renewed_ = true;
  return object.renew(signed_at_);
}

bool http_transfer::is_redirected() const noexcept {
  const http_url& own = address_->object.url;
  return !to_.same_origin(own) || to_.target != own.target;
}

void http_transfer::leave_redirect() {
  address_->forget();
  to_ = address_->object.url;
  uses_known_redirect_ = false;
  redirects_ = 0;
  target_requests_ = target_failures_ = 0;
}

void http_transfer::count_target_failure(bool is_unconnected) {
  const bool is_unusable = ++target_failures_ >= 2 || is_unconnected;
  if (is_unusable && is_redirected()) leave_redirect();
}

// A request that changes an object is sent only to the address of the object.
bool http_transfer::follows_redirects() const noexcept {
  return kind_.method() == http_method::get || kind_.method() == http_method::head;
}

http_transfer::next_step http_transfer::after_response(const http_exchange& exchange) {
  const response_kind kind = kind_of(exchange.response);
  const bool has_location = exchange.response.field("location") != nullptr;
  if (kind == response_kind::redirect && has_location && follows_redirects())
    return follow_redirect(exchange);
  if (kind == response_kind::retryable) return retry_later(exchange);
  const bool succeeded = kind == response_kind::partial || kind == response_kind::whole;
  const bool is_repeated = is_redirected() && target_requests_ > 1;
  if (!succeeded && (uses_known_redirect_ || is_repeated)) {
    // The redirected address may have expired, or may be valid for one request only.
    leave_redirect();
    return {};
  }
  if (!succeeded && renew_credentials(exchange.response.status)) return {};
  fault failure;
  const transfer_kind::state now = kind_.evaluate(exchange.response, failure);
  if (now != transfer_kind::state::unfinished) {
    if (now == transfer_kind::state::done && redirects_ > 0) address_->moved(to_);
    return end_with(now, failure);
  }
  // The server sent fewer bytes than requested. A response with few bytes counts as a failure,
  // because otherwise the transfer might never end.
  tries_->progressed(exchange.arrived);
  if (exchange.arrived >= retry_state::progress_bytes) return {};
  const auto delay = tries_->failed(thread_->random_fraction());
  if (delay) {
    count_target_failure(false);
    return {std::nullopt, *delay};
  }
  if (!failure.code) failure = remote_fault("the server sends only a few bytes in each response");
  return {result<void>(failure), {}};
}

http_transfer::next_step http_transfer::follow_redirect(const http_exchange& exchange) {
  auto next = resolve_location(to_, *exchange.response.field("location"));
  if (!next) {
    return {result<void>(remote_fault("the request was redirected to an invalid HTTP address")),
            {}};
  }
  if (!kind_.follows_redirects() && !next->same_origin(address_->object.url)) {
    fault failure;
    return end_with(kind_.evaluate(exchange.response, failure), failure);
  }
  if (to_.tls && !next->tls) {
    return {result<void>(remote_fault("the request was redirected from https to http://" +
                                      next->authority() + ", which is not followed")),
            {}};
  }
  if (++redirects_ > settings().redirects_max) {
    return {result<void>(remote_fault("the request was redirected more than " +
                                      grouped(settings().redirects_max) + " times")),
            {}};
  }
  to_ = std::move(*next);
  target_requests_ = target_failures_ = 0;
  return {};
}

http_transfer::next_step http_transfer::retry_later(const http_exchange& exchange) {
  const auto delay = tries_->failed(thread_->random_fraction(), wanted_delay(exchange.response));
  if (delay) {
    count_target_failure(false);
    // A delay before a retry does not count as a stall.
    stall_begin_ = std::chrono::steady_clock::now() + *delay;
    return {std::nullopt, *delay};
  }
  fault failure;
  return end_with(kind_.evaluate_refused(exchange.response, failure), failure);
}

http_transfer::next_step http_transfer::end_with(transfer_kind::state outcome,
                                                 const fault& failure) {
  next_step out;
  out.end = outcome == transfer_kind::state::done ? result<void>() : result<void>(failure);
  return out;
}

std::exception_ptr exception_of(const fault& failure) noexcept {
  try {
    return std::make_exception_ptr(to_error(failure));
  } catch (const std::bad_alloc&) {
    return std::make_exception_ptr(std::bad_alloc());
  }
}

void start(net_thread& thread, const std::shared_ptr<http_transfer>& task,
           transfer_handler::function done) noexcept {
  transfer_handler handler(std::move(done));
  try {
    asio::co_spawn(thread.loop, task->run(), std::move(handler));
  } catch (const std::bad_alloc&) {
    // The destructor of the handler calls `done`.
  }
}

}  // namespace ringload::inline v0::remote_http
