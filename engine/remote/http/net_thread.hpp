// SPDX-License-Identifier: Apache-2.0
#pragma once

// A network thread with its event loop and its connections. Transfers of the same network thread
// need no locks, because only this thread runs them.

#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <map>
#include <memory>
#include <random>
#include <thread>

#include "remote/http/host_pool.hpp"
#include "remote/http/settings.hpp"

namespace ringload::inline v0::remote_http {

class net_thread {
 public:
  // Starts the thread. Throws std::system_error if the thread cannot be started.
  static std::shared_ptr<net_thread> make(std::shared_ptr<const client_settings> shared_settings);

  explicit net_thread(std::shared_ptr<const client_settings> shared_settings)
      : settings(std::move(shared_settings)) {}

  const std::shared_ptr<const client_settings> settings;
  boost::asio::io_context loop{1};

  // Ends all connections. Ends the thread when no operation is in flight. Waits until the thread
  // has ended, unless called in the network thread. Must be called once. May be called in any
  // thread.
  void close();

  // ---- Only in the network thread ----

  host_pool& pool_for(const origin& to);
  double random_fraction() { return std::uniform_real_distribution<>(0, 1)(random_); }

 private:
  boost::asio::executor_work_guard<boost::asio::io_context::executor_type> work_guard_{
      loop.get_executor()};
  std::map<origin, std::shared_ptr<host_pool>> pools_;
  std::minstd_rand random_{std::random_device()()};
  std::thread thread_;
};

}  // namespace ringload::inline v0::remote_http
