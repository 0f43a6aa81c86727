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
  void operator()(Handler&& handler, host_pool* pool, exchange* x) const {
    x->done.emplace(std::forward<Handler>(handler));
    pool->add(*x);
  }
};

bool clean(const header_field& field) noexcept {
  const auto bad = [](char c) { return c == '\r' || c == '\n' || c == '\0'; };
  return !field.name.empty() && std::ranges::none_of(field.name, bad) &&
         std::ranges::none_of(field.value, bad);
}

// Names of this machine, for where addresses are not seen.
bool names_private(const std::string& host) {
  boost::system::error_code code;
  const auto address = asio::ip::make_address(host, code);
  if (!code) return is_private(address);
  return host == "localhost" || host.ends_with(".localhost") || host.ends_with(".local") ||
         host.ends_with(".internal");
}

std::optional<milliseconds> wanted_delay(const answer_head& head) {
  const std::string* const text = head.field("retry-after");
  if (text == nullptr) return std::nullopt;
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return parse_retry_after(*text, std::chrono::duration_cast<std::chrono::seconds>(now).count());
}

fault remote_fault(std::string cause) { return {errc::remote_failed, "", std::move(cause)}; }

}  // namespace

http_url object_address::current() const {
  const std::lock_guard lock(mutex_);
  return moved_.value_or(what.url);
}

void object_address::moved(const http_url& to) {
  const std::lock_guard lock(mutex_);
  moved_ = to;
}

void object_address::forget() {
  const std::lock_guard lock(mutex_);
  moved_.reset();
}

std::optional<bool> object_address::is_private() const {
  const std::lock_guard lock(mutex_);
  return private_;
}

void object_address::set_private(bool it_is) {
  const std::lock_guard lock(mutex_);
  private_ = it_is;
}

void transfer::listen(const std::stop_token& stop) {
  on_stop_.emplace(stop, [weak = weak_from_this(), on = lane_] {
    const auto end = [weak] {
      const auto self = weak.lock();
      if (self) self->stop();
    };
    retry_allocation([&] { asio::post(on->loop, end); });
  });
}

void transfer::stop() noexcept {
  stopped_ = true;
  abort();
}

void transfer::abort() noexcept {
  pause_.cancel();
  if (current_ != nullptr) pool_->cancel(*current_);
}

void transfer::renew_deadline() noexcept {
  begun_ = stall_begin_ = std::chrono::steady_clock::now();
  watch_time();
}

std::chrono::steady_clock::time_point transfer::stall_end() const noexcept {
  const auto progressed = pool_ == nullptr ? stall_begin_ : pool_->progressed_at();
  return std::max(stall_begin_, progressed) + how().stall_time_max;
}

// Looks again when either limit may be reached: other requests may bring the server's progress.
void transfer::watch_time() noexcept {
  const auto request_end = begun_ + how().request_time_max;
  deadline_.expires_at(std::min(request_end, stall_end()));
  const auto look = [weak = weak_from_this(), request_end](const boost::system::error_code& ended) {
    const auto self = weak.lock();
    if (ended || !self) return;
    const auto now = std::chrono::steady_clock::now();
    self->late_ = now >= request_end;
    self->stalled_ = now >= self->stall_end();
    if (self->late_ || self->stalled_) return self->abort();
    self->watch_time();
  };
  retry_allocation([&] { deadline_.async_wait(look); });
}

std::optional<fault> transfer::over() const {
  if (stopped_) return fault(asio::error::operation_aborted, "");
  if (stalled_ && !late_) {
    return fault(errc::remote_failed, "",
                 "the server brought less than 64 KiB in " +
                     grouped(static_cast<std::uint64_t>(how().stall_time_max.count())) + " ms" +
                     (last_failure_.empty() ? "" : ": " + last_failure_));
  }
  if (!late_) return std::nullopt;
  return fault(errc::remote_failed, "",
               "it was not there after " +
                   grouped(static_cast<std::uint64_t>(how().request_time_max.count())) +
                   " ms (remote_options::request_time_max)");
}

result<origin> transfer::where() const {
  if (!how().hosts.empty() && std::ranges::find(how().hosts, to_.host) == how().hosts.end()) {
    return fault(errc::access_denied, "",
                 "the host '" + to_.host + "' is not one of those that may be fetched from");
  }
  const bool own = to_.same_origin(of_->what.url);
  const bool guarded = !own && !how().private_redirects && !of_->is_private().value_or(false);
  if (guarded && how().proxy && names_private(to_.host) && !names_private(of_->what.url.host)) {
    return remote_fault(
        "it was redirected to an address of this machine or of a private network, which is not "
        "followed (remote_options::private_redirects)");
  }
  return origin{to_.tls, to_.host, to_.port, guarded};
}

result<std::string> transfer::request_text() const {
  std::vector<header_field> fields = goal_.fields();
  const char* const method = goal_.head() ? "HEAD" : "GET";
  if (of_->what.sign && to_.same_origin(of_->what.url)) {
    auto more = of_->what.sign({method, to_, fields});
    std::ranges::move(more, std::back_inserter(fields));
  }
  const bool absolute = how().proxy && !to_.tls;
  std::string out = std::string(method) + " " +
                    (absolute ? "http://" + to_.authority() + to_.target : to_.target) +
                    " HTTP/1.1\r\nHost: " + to_.authority() +
                    "\r\nUser-Agent: ringload\r\nAccept: */*\r\nAccept-Encoding: identity\r\n";
  for (const header_field& each : fields) {
    if (!clean(each)) return fault{errc::invalid_source_name, "", "a field of its request is none"};
    out += each.name + ": " + each.value + "\r\n";
  }
  return out + "\r\n";
}

asio::awaitable<void> transfer::exchange_once(exchange& x, const origin& to) {
  struct current_exchange {
    explicit current_exchange(exchange*& place) noexcept : current(place) {}
    current_exchange(const current_exchange&) = delete;
    current_exchange& operator=(const current_exchange&) = delete;
    ~current_exchange() { current = nullptr; }
    exchange*& current;
  };
  const current_exchange until_it_ends(current_);
  host_pool& pool = lane_->pool_for(to);
  pool_ = &pool;
  current_ = &x;
  // They stand when the answer has come.
  if (redirects_ > 0 || from_memory_ || !of_->what.moves) pool.prepare(goal_.followed_by());
  co_await asio::async_initiate<const asio::use_awaitable_t<>, void()>(
      start_exchange(), asio::use_awaitable, &pool, &x);
}

asio::awaitable<void> transfer::pause(milliseconds delay) {
  boost::system::error_code ignored;
  pause_.expires_after(delay);
  co_await pause_.async_wait(asio::redirect_error(asio::use_awaitable, ignored));
}

// Where it is found is known with the head of a good answer.
body_place transfer::place(const answer_head& head) {
  const answer_kind kind = kind_of(head);
  if (kind == answer_kind::redirect) return {};
  const bool good = kind == answer_kind::partial || kind == answer_kind::whole;
  if (good && redirects_ > 0) of_->moved(to_);
  return goal_.place(head);
}

asio::awaitable<result<void>> transfer::run() {
  result<void> ended;
  to_ = of_->current();
  from_memory_ = !to_.same_origin(of_->what.url) || to_.target != of_->what.url.target;
  tries_.emplace(how().retries);
  renew_deadline();
  for (std::uint64_t requests = 0;; ++requests) {
    if (auto why = over()) {
      ended = *why;
      break;
    }
    auto to = where();
    auto text = to ? request_text() : result<std::string>(to.error());
    if (!text) {
      ended = text.error();
      break;
    }
    if (counts) ++counts->requests;
    if (counts && requests > 0) ++counts->retries;
    exchange x;
    x.request = std::move(*text);
    x.head = goal_.head();
    x.awaited = awaited;
    x.place = [this](const answer_head& head) { return place(head); };
    co_await exchange_once(x, *to);
    goal_.arrived(x.arrived);
    if (!x.failure) pool_->note_answer();
    if (x.answer.status != 0 && to_.same_origin(of_->what.url) && !how().proxy) {
      of_->set_private(x.private_peer);
    }
    next_step next = x.failure ? after_failure(x) : after_answer(x);
    if (next.end) {
      ended = std::move(*next.end);
      break;
    }
    if (next.delay.count() > 0 && !over()) co_await pause(next.delay);
  }
  deadline_.cancel();
  on_stop_.reset();
  co_return ended;
}

transfer::next_step transfer::after_failure(const exchange& x) {
  next_step out;
  if (over()) return out;
  tries_->progressed(x.arrived);
  const auto delay = x.failure->final ? std::nullopt : tries_->failed(lane_->chance());
  if (delay) {
    last_failure_ = x.failure->what.cause;
    out.delay = *delay;
    return out;
  }
  fault why = x.failure->what;
  if (!x.failure->final) why.cause += " (" + grouped(tries_->failures()) + " times in a row)";
  out.end = result<void>(std::move(why));
  return out;
}

transfer::next_step transfer::after_answer(const exchange& x) {
  const answer_kind kind = kind_of(x.answer);
  if (kind == answer_kind::redirect && x.answer.field("location") != nullptr) return redirect(x);
  if (kind == answer_kind::again) return later(x);
  const bool good = kind == answer_kind::partial || kind == answer_kind::whole;
  if (!good && from_memory_) {
    // Addresses that are redirected to may be good for a while only.
    of_->forget();
    to_ = of_->what.url;
    from_memory_ = false;
    redirects_ = 0;
    return {};
  }
  fault why;
  const transfer_goal::state now = goal_.settle(x.answer, why);
  if (now != transfer_goal::state::unfinished) {
    if (now == transfer_goal::state::done && redirects_ > 0) of_->moved(to_);
    return end_with(now, why);
  }
  // The server gave less than it was asked for, and may go on with that for ever.
  tries_->progressed(x.arrived);
  if (x.arrived >= retry_state::progress_bytes) return {};
  const auto delay = tries_->failed(lane_->chance());
  if (delay) return {std::nullopt, *delay};
  return {result<void>(remote_fault("the server gives a few bytes at a time only")), {}};
}

transfer::next_step transfer::redirect(const exchange& x) {
  auto next = resolve_location(to_, *x.answer.field("location"));
  if (!next) {
    return {result<void>(remote_fault("it was redirected to what is no address of HTTP")), {}};
  }
  if (!goal_.follows() && !next->same_origin(of_->what.url)) {
    fault why;
    return end_with(goal_.settle(x.answer, why), why);
  }
  if (to_.tls && !next->tls) {
    return {result<void>(remote_fault("it was redirected from https to http://" +
                                      next->authority() + ", which is not followed")),
            {}};
  }
  if (++redirects_ > how().redirects_max) {
    return {result<void>(remote_fault("it was redirected more than " +
                                      grouped(how().redirects_max) + " times")),
            {}};
  }
  to_ = std::move(*next);
  return {};
}

transfer::next_step transfer::later(const exchange& x) {
  const auto delay = tries_->failed(lane_->chance(), wanted_delay(x.answer));
  if (delay) {
    stall_begin_ = std::chrono::steady_clock::now() + *delay;  // A pause is no stall.
    return {std::nullopt, *delay};
  }
  fault why;
  return end_with(goal_.settle_refused(x.answer, why), why);
}

transfer::next_step transfer::end_with(transfer_goal::state how_it_is, const fault& why) {
  next_step out;
  out.end = how_it_is == transfer_goal::state::done ? result<void>() : result<void>(why);
  return out;
}

std::exception_ptr exception_of(const fault& why) noexcept {
  try {
    return std::make_exception_ptr(to_error(why));
  } catch (const std::bad_alloc&) {
    return std::make_exception_ptr(std::bad_alloc());
  }
}

void start(lane& on, const std::shared_ptr<transfer>& one,
           transfer_handler::function done) noexcept {
  transfer_handler handler(std::move(done));
  try {
    asio::co_spawn(on.loop, one->run(), std::move(handler));
  } catch (const std::bad_alloc&) {
    // The handler is called as it is destroyed.
  }
}

}  // namespace ringload::inline v0::remote_http
