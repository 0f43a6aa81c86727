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
  // unless the source was called after `signed_at`. Returns true if the credentials have changed
  // since `signed_at`, so that a new signature may be accepted.
  bool renew(clock::time_point signed_at);

 private:
  void call_source();  // Must be called with renewing_ locked.
  // Returns true if `keys` differ from the previous credentials.
  bool replace(s3_keys keys);

  mutable std::mutex mutex_;
  s3_credentials credentials_;  // Guarded by mutex_.

  std::mutex renewing_;  // Held during a call of the source.
  // Guarded by renewing_.
  const source source_;
  std::optional<clock::time_point> asked_at_;  // When the last call of the source ended.
  // When the last call that returned other credentials ended.
  std::optional<clock::time_point> changed_at_;
};

}  // namespace ringload::inline v0::remote_http
