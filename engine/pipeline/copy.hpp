// SPDX-License-Identifier: Apache-2.0
#pragma once

// Awaits the copies of one slot.

#include <boost/asio/async_result.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <memory>
#include <type_traits>
#include <utility>

#include "core/retry_allocation.hpp"
#include "device/backend.hpp"

namespace ringload::inline v0::detail {

// The result of a copy. A struct, because Asio throws an awaited error_code.
struct copied {
  boost::system::error_code failed;
};

// The copies of a slot and their completion handler, which resumes a coroutine.
template <class Handler>
struct waiting_copy final : copy_operation {
  explicit waiting_copy(Handler&& h) : handler(std::move(h)) {}
  Handler handler;
};

struct start_copy {
  template <class Handler>
  void operator()(Handler&& handler, backend* target, const copy_operation* what) const {
    using op_type = waiting_copy<std::decay_t<Handler>>;
    auto op =
        retry_allocation([&] { return std::make_unique<op_type>(std::forward<Handler>(handler)); });
    static_cast<copy_operation&>(*op) = *what;
    op->done = [](copy_operation& self, boost::system::error_code failed) {
      std::unique_ptr<op_type> mine(static_cast<op_type*>(&self));
      auto resume = std::move(mine->handler);
      mine.reset();
      std::move(resume)(copied{failed});
    };
    target->start(*op.release());
  }
};

// Completes once the device no longer reads the slot. Not cancellable.
inline boost::asio::awaitable<copied> copy(backend& target, const copy_operation& what) {
  return boost::asio::async_initiate<const boost::asio::use_awaitable_t<>, void(copied)>(
      start_copy(), boost::asio::use_awaitable, &target, &what);
}

}  // namespace ringload::inline v0::detail
