// SPDX-License-Identifier: Apache-2.0
#pragma once

// All network threads of an HTTP client. The threads run while this object exists.

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "remote/http/net_thread.hpp"

namespace ringload::inline v0::remote_http {

class net_thread_pool {
 public:
  explicit net_thread_pool(client_settings options);
  net_thread_pool(const net_thread_pool&) = delete;
  net_thread_pool& operator=(const net_thread_pool&) = delete;
  ~net_thread_pool();

  const std::shared_ptr<const client_settings> settings;

  std::shared_ptr<net_thread> next() noexcept;  // Returns the network threads in turn. Thread-safe.

 private:
  std::vector<std::shared_ptr<net_thread>> threads_;
  std::atomic<std::uint32_t> next_ = 0;
};

}  // namespace ringload::inline v0::remote_http
