// SPDX-License-Identifier: Apache-2.0

#include "remote/http/net_thread.hpp"

#include <pthread.h>

#include <boost/asio/post.hpp>
#include <exception>

#include "base/retry_allocation.hpp"
#include "base/signals_blocked.hpp"

namespace ringload::inline v0::remote_http {

namespace {

void run(net_thread& current) {
  ::pthread_setname_np(::pthread_self(), "ringload-net");
  while (!current.loop.stopped()) {
    // If an Asio operation has no memory, its coroutine is destroyed. The destructors of
    // transfer_handler, connection_slot and http_connection then report the failure to the waiting
    // code. Other coroutines continue.
    try {
      current.loop.run();
    } catch (const std::exception&) {
    }
  }
}

}  // namespace

std::shared_ptr<net_thread> net_thread::make(
    std::shared_ptr<const client_settings> shared_settings) {
  auto created = std::make_shared<net_thread>(std::move(shared_settings));
  const signals_blocked guard;
  // The thread function keeps the net_thread alive.
  created->thread_ = std::thread([created] { run(*created); });
  return created;
}

void net_thread::close() {
  const auto end_all = [this] {
    for (const auto& entry : pools_) entry.second->close();
    work_guard_.reset();
  };
  retry_allocation([&] { boost::asio::post(loop, end_all); });
  if (thread_.get_id() == std::this_thread::get_id()) {
    thread_.detach();
  } else {
    thread_.join();
  }
}

host_pool& net_thread::pool_for(const origin& to) {
  auto found = pools_.find(to);
  // The pool is created before the insertion, so that a failure leaves no empty entry in the map.
  if (found == pools_.end()) {
    found = pools_.emplace(to, std::make_shared<host_pool>(loop, to, *settings)).first;
  }
  return *found->second;
}

}  // namespace ringload::inline v0::remote_http
