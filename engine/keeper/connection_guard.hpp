// SPDX-License-Identifier: Apache-2.0
#pragma once

// Makes the connection of a blocked call available to the thread that cancels the call.

#include <sys/socket.h>

#include <mutex>

#include "base/unique_fd.hpp"

namespace ringload::inline v0::detail {

class connection_guard {
 public:
  // While a scope exists, interrupt() ends a send or a receive on `connection`.
  class scope {
   public:
    scope(connection_guard* guard, const unique_fd& connection) noexcept : guard_(guard) {
      if (guard_ != nullptr) guard_->set(connection.get());
    }
    scope(const scope&) = delete;
    scope& operator=(const scope&) = delete;
    ~scope() {
      if (guard_ != nullptr) guard_->set(-1);
    }

   private:
    connection_guard* const guard_;
  };

  void interrupt() noexcept {
    const std::lock_guard lock(mutex_);
    is_interrupted_ = true;
    if (descriptor_ >= 0) ::shutdown(descriptor_, SHUT_RDWR);
  }

  bool is_interrupted() noexcept {
    const std::lock_guard lock(mutex_);
    return is_interrupted_;
  }

 private:
  void set(int descriptor) noexcept {
    const std::lock_guard lock(mutex_);
    descriptor_ = descriptor;
    if (is_interrupted_ && descriptor_ >= 0) ::shutdown(descriptor_, SHUT_RDWR);
  }

  std::mutex mutex_;
  // The mutex guards the members below.
  int descriptor_ = -1;
  bool is_interrupted_ = false;
};

}  // namespace ringload::inline v0::detail
