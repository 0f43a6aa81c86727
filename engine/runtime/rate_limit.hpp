// SPDX-License-Identifier: Apache-2.0
#pragma once

// Delays reads so that loader_options::bytes_per_second_max is not exceeded. Engine thread only.

#include <atomic>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <cstdint>
#include <vector>

#include "runtime/token_bucket.hpp"

namespace ringload::inline v0::detail {

class rate_limit {
 public:
  // 0 means no limit.
  rate_limit(boost::asio::io_context& loop, std::uint64_t bytes_per_second_max) noexcept
      : loop_(loop), is_set_(bytes_per_second_max > 0), bucket_(bytes_per_second_max) {}

  bool is_set() const noexcept { return is_set_; }
  // Returns when the read may start, or after `stop` is set and wake_all() is called.
  boost::asio::awaitable<void> acquire(std::uint64_t bytes, const std::atomic<bool>& stop);
  void wake_all() noexcept;

 private:
  class listed_timer;

  boost::asio::io_context& loop_;
  const bool is_set_;
  token_bucket bucket_;
  std::vector<boost::asio::steady_timer*> waiting_;
};

}  // namespace ringload::inline v0::detail
