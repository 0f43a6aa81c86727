// SPDX-License-Identifier: Apache-2.0
#pragma once

// A network thread with its event loop and connections. Transfers of a lane need no locks.

#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <map>
#include <memory>
#include <random>
#include <thread>

#include "remote/http/host_pool.hpp"
#include "remote/http/settings.hpp"

namespace ringload::inline v0::remote_http {

class lane {
 public:
  // Starts the thread. Throws std::system_error.
  static std::shared_ptr<lane> make(std::shared_ptr<const client_settings> shared_settings);

  explicit lane(std::shared_ptr<const client_settings> shared_settings)
      : settings(std::move(shared_settings)) {}

  const std::shared_ptr<const client_settings> settings;
  boost::asio::io_context loop{1};

  // Ends all connections, and the thread once no operation is in flight. Waits for the thread,
  // unless called in the lane's thread. Call once, from any thread.
  void close();

  // ---- In the lane's thread ----

  host_pool& pool_for(const origin& to);
  double chance() { return std::uniform_real_distribution<>(0, 1)(random_); }

 private:
  boost::asio::executor_work_guard<boost::asio::io_context::executor_type> stay_{
      loop.get_executor()};
  std::map<origin, std::shared_ptr<host_pool>> pools_;
  std::minstd_rand random_{std::random_device()()};
  std::thread thread_;
};

}  // namespace ringload::inline v0::remote_http
