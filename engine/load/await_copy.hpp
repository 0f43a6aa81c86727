// SPDX-License-Identifier: Apache-2.0
#pragma once

// Coroutines that copy the content of a slot (I/O buffer) to the memory of tensors.

#include <boost/asio/async_result.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <cstddef>
#include <memory>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

#include "base/retry_allocation.hpp"
#include "device/backend.hpp"

namespace ringload::inline v0::detail {

// The result of a copy. If the handler received a bare error_code, co_await would throw the error
// code instead of returning the result.
struct copy_result {
  boost::system::error_code failed;
};

// A copy operation on one device, with the handler that resumes the waiting coroutine.
template <class Handler>
struct waiting_copy final : copy_operation {
  explicit waiting_copy(Handler&& h) : handler(std::move(h)) {}
  Handler handler;
};

struct start_copy {
  template <class Handler>
  void operator()(Handler&& handler, backend* target, const copy_operation* request) const {
    using op_type = waiting_copy<std::decay_t<Handler>>;
    auto op =
        retry_allocation([&] { return std::make_unique<op_type>(std::forward<Handler>(handler)); });
    static_cast<copy_operation&>(*op) = *request;
    op->done = [](copy_operation& self, boost::system::error_code failed) {
      std::unique_ptr<op_type> owned(static_cast<op_type*>(&self));
      auto resume = std::move(owned->handler);
      owned.reset();
      std::move(resume)(copy_result{failed});
    };
    target->start(*op.release());
  }
};

// Carries out one copy operation on one device. Completes when the device no longer reads the slot.
// Cannot be cancelled.
inline boost::asio::awaitable<copy_result> copy(backend& target, const copy_operation& request) {
  return boost::asio::async_initiate<const boost::asio::use_awaitable_t<>, void(copy_result)>(
      start_copy(), boost::asio::use_awaitable, &target, &request);
}

// The copies from one slot that one device carries out.
struct device_copies {
  backend* target;
  copy_operation request;
};

// Resumes a coroutine when the copies of several devices have all ended. Engine thread only.
template <class Handler>
struct waiting_copies {
  struct device_copy final : copy_operation {
    waiting_copies* owner = nullptr;
  };

  waiting_copies(Handler&& h, std::vector<device_copy> parts)
      : handler(std::move(h)), copies(std::move(parts)) {}

  void ended(boost::system::error_code failed) {
    if (failed && !first_failure) first_failure = failed;
    if (++count < copies.size()) return;
    std::unique_ptr<waiting_copies> owned(this);
    auto resume = std::move(handler);
    const copy_result outcome = {first_failure};
    owned.reset();
    std::move(resume)(outcome);
  }

  Handler handler;
  std::vector<device_copy> copies;
  std::size_t count = 0;  // Copies that have ended.
  boost::system::error_code first_failure;
};

struct start_copies {
  template <class Handler>
  void operator()(Handler&& handler, std::span<const device_copies> requests) const {
    using op_type = waiting_copies<std::decay_t<Handler>>;
    auto copies = retry_allocation(
        [&] { return std::vector<typename op_type::device_copy>(requests.size()); });
    auto op = retry_allocation([&] {
      return std::make_unique<op_type>(std::forward<Handler>(handler), std::move(copies));
    });
    op_type* const owner = op.release();
    for (std::size_t i = 0; i < requests.size(); ++i) {
      auto& part = owner->copies[i];
      static_cast<copy_operation&>(part) = requests[i].request;
      part.owner = owner;
      part.done = [](copy_operation& self, boost::system::error_code failed) {
        static_cast<typename op_type::device_copy&>(self).owner->ended(failed);
      };
    }
    for (std::size_t i = 0; i < requests.size(); ++i) requests[i].target->start(owner->copies[i]);
  }
};

// Carries out the copies of several devices. Completes when no device reads the slot any more.
// Returns the first failure. `requests` must not be empty.
inline boost::asio::awaitable<copy_result> copy(std::span<const device_copies> requests) {
  return boost::asio::async_initiate<const boost::asio::use_awaitable_t<>, void(copy_result)>(
      start_copies(), boost::asio::use_awaitable, requests);
}

}  // namespace ringload::inline v0::detail
