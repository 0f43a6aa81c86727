// SPDX-License-Identifier: Apache-2.0
#pragma once

// All lanes of a client. Whoever holds this keeps the threads.

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "remote/http/net_thread.hpp"

namespace ringload::inline v0::remote_http {

class lanes {
 public:
  explicit lanes(client_settings with);
  lanes(const lanes&) = delete;
  lanes& operator=(const lanes&) = delete;
  ~lanes();

  const std::shared_ptr<const client_settings> how;

  std::shared_ptr<lane> next() noexcept;  // In turn. Any thread.

 private:
  std::vector<std::shared_ptr<lane>> all_;
  std::atomic<std::uint32_t> next_ = 0;
};

}  // namespace ringload::inline v0::remote_http
