// SPDX-License-Identifier: Apache-2.0
#include "remote/host_pool.hpp"

#include <algorithm>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/error.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <utility>

namespace ringload::inline v0::remote_http {

namespace {

fault cancelled() {
  return {boost::asio::error::operation_aborted, "", "the request was cancelled"};
}

}  // namespace

void host_pool::add(exchange& x) {
  (x.awaited ? awaited_ : others_).push_back(&x);
  if (closing_) return cancel(x);
  call_for_help();
}

// A connection for what was added: an idle one, or a new one.
void host_pool::call_for_help() {
  if (!idle_.empty()) {
    idle_.back()->cancel();
    idle_.pop_back();
  } else if (connections_ < how.connections) {
    connect(false);
  } else if (!parked_.empty()) {
    parked_.back()->cancel();
    parked_.pop_back();
  }
}

void host_pool::connect(bool at_once) {
  boost::asio::co_spawn(loop, serve(shared_from_this(), at_once), boost::asio::detached);
  ++connections_;
}

void host_pool::prepare(std::uint64_t count) {
  while (!closing_ && connections_ < std::min<std::uint64_t>(count, how.connections)) connect(true);
}

void host_pool::cancel(exchange& x) {
  if (x.on != nullptr) {
    if (forget_ahead(*x.on, x)) {
      x.failure = exchange_failure{cancelled(), true};
      return end(x);
    }
    x.cancelled = true;
    return abort(*x.on);
  }
  for (auto* queue : {&awaited_, &others_}) {
    const auto at = std::ranges::find(*queue, &x);
    if (at == queue->end()) continue;
    queue->erase(at);
    x.failure = exchange_failure{cancelled(), true};
    return end(x);
  }
}

void host_pool::close() {
  closing_ = true;
  while (has_work()) cancel(awaited_.empty() ? *others_.front() : *awaited_.front());
  for (link* const each : links_) abort(*each);
  for (boost::asio::steady_timer* const each : idle_) each->cancel();
  idle_.clear();
}

void host_pool::leave(link& one) noexcept {
  links_.erase(&one);
  --connections_;
}

exchange* host_pool::take() {
  auto& queue = awaited_.empty() ? others_ : awaited_;
  if (queue.empty()) return nullptr;
  exchange* const next = queue.front();
  queue.pop_front();
  return next;
}

// Awaited ones go to the first connection that is free.
exchange* host_pool::take_ahead() {
  const std::size_t waiting = awaited_.size() + others_.size();
  if (others_.empty() || waiting <= connections_ - carrying_) return nullptr;
  exchange* const next = others_.front();
  others_.pop_front();
  return next;
}

boost::asio::awaitable<bool> host_pool::wait() {
  boost::asio::steady_timer timer(loop, how.idle_time_max);
  if (has_work()) co_return true;
  if (closing_) co_return false;
  idle_.push_back(&timer);
  boost::system::error_code woken;
  co_await timer.async_wait(boost::asio::redirect_error(boost::asio::use_awaitable, woken));
  std::erase(idle_, &timer);
  co_return !closing_ && (woken || has_work());
}

void host_pool::put_back(exchange& x) {
  x.on = nullptr;
  (x.awaited ? awaited_ : others_).push_front(&x);
  if (closing_) cancel(x);
}

void host_pool::end(exchange& x) {
  x.on = nullptr;
  boost::asio::post(loop, std::move(*x.done));
}

}  // namespace ringload::inline v0::remote_http
