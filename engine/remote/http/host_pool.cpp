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

// The fault has no text, because memory for a text may be missing.
exchange_failure cancelled() { return {{boost::asio::error::operation_aborted, ""}, true}; }

exchange_failure no_memory() { return {{errc::memory_exceeded, ""}, true}; }

}  // namespace

void host_pool::add(exchange& x) noexcept {
  try {
    (x.awaited ? awaited_ : background_).push_back(&x);
  } catch (const std::bad_alloc&) {
    return fail(x);
  }
  if (closing_) return cancel(x);
  try {
    call_for_help();
  } catch (const std::bad_alloc&) {
    if (connections_ > 0) return;  // An existing connection takes the exchange.
    if (std::erase(x.awaited ? awaited_ : background_, &x) > 0) fail(x);
  }
}

void host_pool::fail(exchange& x) noexcept {
  x.failure = no_memory();
  end(x);
}

// Wakes an idle connection or opens a new connection for an added exchange.
void host_pool::call_for_help() {
  if (!idle_.empty()) {
    idle_.back()->cancel();
    idle_.pop_back();
  } else if (connections_ < settings.connections) {
    connect(false);
  } else if (!parked_.empty()) {
    parked_.back()->cancel();
    parked_.pop_back();
  }
}

void host_pool::connect(bool at_once) {
  ++connections_;
  connection_slot slot(shared_from_this());
  boost::asio::co_spawn(loop, serve(std::move(slot), at_once), boost::asio::detached);
}

// If memory is missing, fewer connections are opened.
void host_pool::prepare(std::uint64_t count) noexcept try {
  while (!closing_ && connections_ < std::min<std::uint64_t>(count, settings.connections))
    connect(true);
} catch (const std::bad_alloc&) {
}

void host_pool::release_slot() noexcept {
  --connections_;
  if (connections_ > 0) return;
  // No connection is left for waiting exchanges. Exchanges wait here only if memory was missing.
  while (has_work()) {
    exchange* const next = take();
    if (next != nullptr) fail(*next);
  }
}

void host_pool::note_answer() noexcept {
  progressed_at_ = std::chrono::steady_clock::now();
  bytes_since_progress_ = 0;
}

void host_pool::note_bytes(std::uint64_t bytes) noexcept {
  bytes_since_progress_ += bytes;
  if (bytes_since_progress_ >= retry_state::progress_bytes) note_answer();
}

void host_pool::cancel(exchange& x) noexcept {
  if (x.on != nullptr) {
    if (forget_ahead(*x.on, x)) {
      x.failure = cancelled();
      return end(x);
    }
    x.cancelled = true;
    return abort(*x.on);
  }
  for (auto* queue : {&awaited_, &background_}) {
    const auto entry = std::ranges::find(*queue, &x);
    if (entry == queue->end()) continue;
    queue->erase(entry);
    x.failure = cancelled();
    return end(x);
  }
}

void host_pool::close() {
  closing_ = true;
  while (has_work()) cancel(awaited_.empty() ? *background_.front() : *awaited_.front());
  for (link* const each : links_) abort(*each);
  for (boost::asio::steady_timer* const each : idle_) each->cancel();
  idle_.clear();
}

exchange* host_pool::take() {
  auto& queue = awaited_.empty() ? background_ : awaited_;
  if (queue.empty()) return nullptr;
  exchange* const next = queue.front();
  queue.pop_front();
  return next;
}

// Awaited exchanges are never sent ahead: they use the first free connection.
exchange* host_pool::take_ahead() {
  const std::size_t waiting = awaited_.size() + background_.size();
  if (background_.empty() || waiting <= connections_ - carrying_) return nullptr;
  exchange* const next = background_.front();
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

void host_pool::put_back(exchange& x) noexcept {
  x.on = nullptr;
  try {
    (x.awaited ? awaited_ : background_).push_front(&x);
  } catch (const std::bad_alloc&) {
    return fail(x);
  }
  if (closing_) cancel(x);
}

// The exchange must live until its handler is called.
void host_pool::end(exchange& x) noexcept {
  x.on = nullptr;
  const auto complete = [&x] {
    auto done = std::move(*x.done);
    std::move(done)();
  };
  retry_allocation([&] { boost::asio::post(loop, complete); });
}

}  // namespace ringload::inline v0::remote_http
