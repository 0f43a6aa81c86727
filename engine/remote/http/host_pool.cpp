// SPDX-License-Identifier: Apache-2.0

#include "remote/http/host_pool.hpp"

#include <algorithm>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/error.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <new>
#include <utility>

#include "base/retry_allocation.hpp"

namespace ringload::inline v0::remote_http {

namespace {

// The faults have no text, because there may be no memory for a text.
exchange_failure cancelled() { return {{boost::asio::error::operation_aborted, ""}, true}; }

exchange_failure no_memory() { return {{errc::memory_exceeded, ""}, true}; }

}  // namespace

void host_pool::add(http_exchange& exchange) noexcept {
  try {
    (exchange.awaited ? awaited_ : background_).push_back(&exchange);
  } catch (const std::bad_alloc&) {
    return fail(exchange);
  }
  if (closing_) return cancel(exchange);
  try {
    find_connection();
  } catch (const std::bad_alloc&) {
    // If a connection exists, the connection takes the exchange later. Otherwise the exchange
    // fails.
    if (wake_connection() || connections_ > 0) return;
    if (std::erase(exchange.awaited ? awaited_ : background_, &exchange) > 0) fail(exchange);
  }
}

void host_pool::fail(http_exchange& exchange) noexcept {
  exchange.failure = no_memory();
  end(exchange);
}

// Opens a connection if no connection is idle and the limit is not reached. Otherwise wakes an idle
// connection. If no connection is idle, wakes a connection whose reader is slow: see park().
// If all connections are busy, the first free connection takes the exchange.
void host_pool::find_connection() {
  if (idle_.empty() && connections_ < settings.connections) return connect(false);
  wake_connection();
}

bool host_pool::wake_connection() noexcept {
  listed_timer::list& timers = idle_.empty() ? parked_ : idle_;
  if (timers.empty()) return false;
  timers.back()->cancel();
  timers.pop_back();
  return true;
}

void host_pool::connect(bool connect_early) {
  ++connections_;
  connection_slot slot(shared_from_this());
  boost::asio::co_spawn(loop, serve(std::move(slot), connect_early), boost::asio::detached);
}

// If no memory is left, opens fewer connections.
void host_pool::prepare(std::uint64_t count) noexcept try {
  while (!closing_ && connections_ < std::min<std::uint64_t>(count, settings.connections))
    connect(true);
} catch (const std::bad_alloc&) {
}

void host_pool::release_slot() noexcept {
  --connections_;
  // The ended connection may have been woken for a queued exchange, so another connection is woken.
  // Exchanges can be queued without a connection only if there was no memory for the coroutine of
  // the last connection. The queued exchanges then fail.
  if (has_work() && connections_ > 0) {
    wake_connection();
    return;
  }
  while (has_work()) {
    http_exchange* const next = take();
    if (next != nullptr) fail(*next);
  }
}

void host_pool::note_response() noexcept {
  progressed_at_ = std::chrono::steady_clock::now();
  bytes_since_progress_ = 0;
}

void host_pool::note_bytes(std::uint64_t bytes) noexcept {
  bytes_since_progress_ += bytes;
  if (bytes_since_progress_ >= retry_state::progress_bytes) note_response();
}

void host_pool::cancel(http_exchange& exchange) noexcept {
  if (exchange.connection != nullptr) {
    if (drop_sent_ahead(*exchange.connection, exchange)) {
      exchange.failure = cancelled();
      return end(exchange);
    }
    exchange.cancelled = true;
    return abort(*exchange.connection);
  }
  for (auto* queue : {&awaited_, &background_}) {
    const auto entry = std::ranges::find(*queue, &exchange);
    if (entry == queue->end()) continue;
    queue->erase(entry);
    exchange.failure = cancelled();
    return end(exchange);
  }
}

void host_pool::close() {
  closing_ = true;
  while (has_work()) cancel(awaited_.empty() ? *background_.front() : *awaited_.front());
  for (http_connection* const each : registered_connections_) abort(*each);
  for (boost::asio::steady_timer* const each : idle_) each->cancel();
  idle_.clear();
}

http_exchange* host_pool::take() {
  auto& queue = awaited_.empty() ? background_ : awaited_;
  if (queue.empty()) return nullptr;
  http_exchange* const next = queue.front();
  queue.pop_front();
  return next;
}

// Takes only an exchange of the background. The first free connection must take an exchange for
// which a caller waits.
http_exchange* host_pool::take_to_send_ahead() {
  const std::size_t waiting = awaited_.size() + background_.size();
  if (background_.empty() || waiting <= connections_ - busy_connections_) return nullptr;
  if (!background_.front()->body.empty()) return nullptr;
  http_exchange* const next = background_.front();
  background_.pop_front();
  return next;
}

boost::asio::awaitable<bool> host_pool::wait() {
  boost::asio::steady_timer timer(loop, settings.idle_time_max);
  if (has_work()) co_return true;
  if (closing_) co_return false;
  const listed_timer listed(idle_, timer);
  boost::system::error_code woken;
  co_await timer.async_wait(boost::asio::redirect_error(boost::asio::use_awaitable, woken));
  co_return !closing_ && (woken || has_work());
}

void host_pool::put_back(http_exchange& exchange) noexcept {
  exchange.connection = nullptr;
  try {
    (exchange.awaited ? awaited_ : background_).push_front(&exchange);
  } catch (const std::bad_alloc&) {
    return fail(exchange);
  }
  if (closing_) cancel(exchange);
}

// The caller must keep the exchange alive until its handler is called.
void host_pool::end(http_exchange& exchange) noexcept {
  exchange.connection = nullptr;
  const auto complete = [&exchange] {
    auto done = std::move(*exchange.done);
    std::move(done)();
  };
  retry_allocation([&] { boost::asio::post(loop, complete); });
}

}  // namespace ringload::inline v0::remote_http
