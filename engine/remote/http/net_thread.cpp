// SPDX-License-Identifier: Apache-2.0
#include "remote/http/net_thread.hpp"

#include <pthread.h>

#include <boost/asio/post.hpp>
#include <exception>

#include "base/retry_allocation.hpp"
#include "base/signals_blocked.hpp"

namespace ringload::inline v0::remote_http {

namespace {

void run(lane& one) {
  ::pthread_setname_np(::pthread_self(), "ringload-net");
  while (!one.loop.stopped()) {
    // Without memory for an operation of Asio's its coroutine is destroyed, and whoever waits for
    // that is told: transfer_handler, connection_slot and link do so. The others go on.
    try {
      one.loop.run();
    } catch (const std::exception&) {
    }
  }
}

}  // namespace

std::shared_ptr<lane> lane::make(std::shared_ptr<const client_settings> how) {
  auto made = std::make_shared<lane>(std::move(how));
  const signals_blocked none;
  // The thread keeps the lane, whoever else lets go of it.
  made->thread_ = std::thread([made] { run(*made); });
  return made;
}

void lane::close() {
  const auto end_all = [this] {
    for (const auto& each : pools_) each.second->close();
    stay_.reset();
  };
  retry_allocation([&] { boost::asio::post(loop, end_all); });
  if (thread_.get_id() == std::this_thread::get_id()) {
    thread_.detach();
  } else {
    thread_.join();
  }
}

host_pool& lane::pool_for(const origin& to) {
  auto at = pools_.find(to);
  // Made before it is inserted: without memory for it there must be no entry.
  if (at == pools_.end()) {
    at = pools_.emplace(to, std::make_shared<host_pool>(loop, to, *how)).first;
  }
  return *at->second;
}

}  // namespace ringload::inline v0::remote_http
