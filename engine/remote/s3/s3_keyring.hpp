// SPDX-License-Identifier: Apache-2.0
#pragma once

// The present credentials of an S3 store, and their renewal. Thread-safe.

#include <chrono>
#include <functional>
#include <mutex>
#include <optional>
#include <ringload/s3.hpp>

#include "remote/s3/s3_signature.hpp"

namespace ringload::inline v0::remote_http {

class s3_keyring {
 public:
  using clock = std::chrono::steady_clock;
  using source = std::function<std::optional<s3_keys>()>;

  s3_keyring(s3_credentials first, source renewed_keys)
      : credentials_(std::move(first)), source_(std::move(renewed_keys)) {}

  bool can_renew() const noexcept { return static_cast<bool>(source_); }
  s3_credentials current() const;

  // Called if a server has refused a request that was signed at `signed_at`. Calls the source,
  // unless the source was called after `signed_at`. Returns true if current() differs from the
  // credentials of the request.
  bool renew(clock::time_point signed_at);

 private:
  mutable std::mutex mutex_;
  s3_credentials credentials_;  // Guarded by mutex_.

  std::mutex renewing_;  // Held during a call of the source.
  // Guarded by renewing_.
  const source source_;
  std::optional<clock::time_point> asked_at_;  // When the last call of the source ended.
  bool has_changed_ = false;                   // True if that call returned other credentials.
};

}  // namespace ringload::inline v0::remote_http
