// SPDX-License-Identifier: Apache-2.0
#pragma once

// All lanes of a client. The threads run while this object lives.

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "remote/http/net_thread.hpp"

namespace ringload::inline v0::remote_http {

class lanes {
 public:
  explicit lanes(client_settings options);
  lanes(const lanes&) = delete;
  lanes& operator=(const lanes&) = delete;
  ~lanes();

  const std::shared_ptr<const client_settings> settings;

  std::shared_ptr<lane> next() noexcept;  // Returns the lanes in turn. Thread-safe.

 private:
  std::vector<std::shared_ptr<lane>> threads_;
  std::atomic<std::uint32_t> next_ = 0;
};

}  // namespace ringload::inline v0::remote_http
