// SPDX-License-Identifier: Apache-2.0

#include "runtime/rate_limit.hpp"

#include <boost/asio/redirect_error.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/system/error_code.hpp>

namespace ringload::inline v0::detail {

// A timer that wake_all() can cancel. The destructor also runs if the waiting coroutine is
// destroyed.
class rate_limit::listed_timer {
 public:
  explicit listed_timer(rate_limit& owner) : timer(owner.loop_), owner_(owner) {
    owner_.waiting_.push_back(&timer);
  }
  listed_timer(const listed_timer&) = delete;
  listed_timer& operator=(const listed_timer&) = delete;
  ~listed_timer() { std::erase(owner_.waiting_, &timer); }

  boost::asio::steady_timer timer;

 private:
  rate_limit& owner_;
};

boost::asio::awaitable<void> rate_limit::acquire(std::uint64_t bytes,
                                                 const std::atomic<bool>& stop) {
  listed_timer waiting(*this);
  while (!stop) {
    const auto later = bucket_.take(bytes, token_bucket::clock::now());
    if (!later) break;
    boost::system::error_code ignored;
    waiting.timer.expires_at(*later);
    co_await waiting.timer.async_wait(
        boost::asio::redirect_error(boost::asio::use_awaitable, ignored));
  }
}

void rate_limit::wake_all() noexcept {
  for (boost::asio::steady_timer* const timer : waiting_) timer->cancel();
}

}  // namespace ringload::inline v0::detail
