// SPDX-License-Identifier: Apache-2.0
#pragma once

// Awaits one operation of a `reader` or a `block_writer`. The operation is allocated together with
// the handler that resumes the coroutine, and freed before the handler is called.

#include <boost/asio/async_result.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <memory>
#include <type_traits>
#include <utility>

#include "base/retry_allocation.hpp"

namespace ringload::inline v0::detail {

template <class Station, class Handler>
struct waiting_transfer final : Station::operation {
  explicit waiting_transfer(Handler&& h) : handler(std::move(h)) {}
  Handler handler;
};

template <class Station, class Request>
struct start_transfer {
  template <class Handler>
  void operator()(Handler&& handler, Station* station, const Request& request) const {
    using op_type = waiting_transfer<Station, std::decay_t<Handler>>;
    auto op =
        retry_allocation([&] { return std::make_unique<op_type>(std::forward<Handler>(handler)); });
    op->request = request;
    op->done = [](typename Station::operation& self, int res) {
      std::unique_ptr<op_type> owned(static_cast<op_type*>(&self));
      auto resume = std::move(owned->handler);
      owned.reset();
      std::move(resume)(res);
    };
    station->start(*op.release());
  }
};

// Returns a byte count or -errno once the kernel no longer uses the memory.
template <class Station, class Request>
boost::asio::awaitable<int> transfer(Station& station, const Request& request) {
  return boost::asio::async_initiate<const boost::asio::use_awaitable_t<>, void(int)>(
      start_transfer<Station, Request>(), boost::asio::use_awaitable, &station, request);
}

}  // namespace ringload::inline v0::detail
