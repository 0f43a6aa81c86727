// SPDX-License-Identifier: Apache-2.0
#pragma once

// Awaits the copies of one slot.

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

// Copies of one slot that several devices make at the same time.
struct device_copies {
  backend* by;
  copy_operation what;
};

// Counts them, and resumes a coroutine after the last. Engine thread only.
template <class Handler>
struct waiting_copies {
  struct one final : copy_operation {
    waiting_copies* of = nullptr;
  };

  waiting_copies(Handler&& h, std::vector<one> e) : handler(std::move(h)), each(std::move(e)) {}

  void ended(boost::system::error_code failed) {
    if (failed && !first_failure) first_failure = failed;
    if (++count < each.size()) return;
    std::unique_ptr<waiting_copies> mine(this);
    auto resume = std::move(handler);
    const copied how = {first_failure};
    mine.reset();
    std::move(resume)(how);
  }

  Handler handler;
  std::vector<one> each;
  std::size_t count = 0;  // Of those that have ended.
  boost::system::error_code first_failure;
};

struct start_copies {
  template <class Handler>
  void operator()(Handler&& handler, std::span<const device_copies> what) const {
    using op_type = waiting_copies<std::decay_t<Handler>>;
    auto each = retry_allocation([&] { return std::vector<typename op_type::one>(what.size()); });
    auto op = retry_allocation(
        [&] { return std::make_unique<op_type>(std::forward<Handler>(handler), std::move(each)); });
    // None of them is answered for before the last is started.
    op_type* const all = op.release();
    for (std::size_t i = 0; i < what.size(); ++i) {
      auto& mine = all->each[i];
      static_cast<copy_operation&>(mine) = what[i].what;
      mine.of = all;
      mine.done = [](copy_operation& self, boost::system::error_code failed) {
        static_cast<typename op_type::one&>(self).of->ended(failed);
      };
    }
    for (std::size_t i = 0; i < what.size(); ++i) what[i].by->start(all->each[i]);
  }
};

// Completes once none of them reads the slot any more, with the first failure. Not empty.
inline boost::asio::awaitable<copied> copy(std::span<const device_copies> what) {
  return boost::asio::async_initiate<const boost::asio::use_awaitable_t<>, void(copied)>(
      start_copies(), boost::asio::use_awaitable, what);
}

}  // namespace ringload::inline v0::detail
