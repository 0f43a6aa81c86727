// SPDX-License-Identifier: Apache-2.0
#pragma once

// Spawns the coroutines of loads and saves.

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <memory>
#include <new>

#include "base/fault.hpp"

namespace ringload::inline v0::detail {

// Spawns `make_coroutine(handle)`. The handle keeps `owner` alive. The destructor of the handle
// calls `at_end`. This happens when the coroutine ends, or immediately if the coroutine cannot be
// started. If memory is exhausted, co_spawn may throw, or destroy the coroutine without a notice.
// The handle is destroyed in both cases.
template <class T, class Life, class AtEnd>
void spawn_owned(boost::asio::io_context& loop, const std::shared_ptr<T>& owner,
                 const Life& make_coroutine, const AtEnd& at_end) {
  try {
    const std::shared_ptr<T> handle(owner.get(), [owner, at_end](T*) { at_end(*owner); });
    boost::asio::co_spawn(loop, make_coroutine(handle), boost::asio::detached);
  } catch (const std::bad_alloc&) {
    // The handle has been destroyed, so `at_end` was called.
  }
}

// Stops a load or save whose coroutine ended early because memory was exhausted. Completes the
// operations that wait for the load or save.
template <class User>
void finish_for_memory(User& user) {
  if (user.finished()) return;
  user.stop({errc::memory_exceeded, {}});
  user.finish();
  user.the_engine->remove_user(user);
}

}  // namespace ringload::inline v0::detail
