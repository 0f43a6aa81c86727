// SPDX-License-Identifier: Apache-2.0

#include "remote/s3/s3_keyring.hpp"

#include <utility>

namespace ringload::inline v0::remote_http {

s3_credentials s3_keyring::current() const {
  const std::lock_guard lock(mutex_);
  return credentials_;
}

bool s3_keyring::renew(clock::time_point signed_at) {
  const std::lock_guard renewing(renewing_);
  if (!source_) return false;
  // If several requests are refused at the same time, only the first one calls the source.
  if (!asked_at_ || signed_at >= *asked_at_) call_source();
  return changed_at_ && signed_at <= *changed_at_;
}

void s3_keyring::call_source() {
  std::optional<s3_keys> keys;
  try {
    keys = source_();
  } catch (...) {
    keys.reset();  // The function of the program has failed.
  }
  const bool has_changed = keys && !keys->access_key_id.empty() && replace(std::move(*keys));
  // Requests that were signed with the previous credentials were signed before this time.
  asked_at_ = clock::now();
  if (has_changed) changed_at_ = asked_at_;
}

bool s3_keyring::replace(s3_keys keys) {
  const std::lock_guard lock(mutex_);
  const bool has_changed = keys.access_key_id != credentials_.access_key_id ||
                           keys.secret_access_key != credentials_.secret_access_key ||
                           keys.session_token != credentials_.session_token;
  credentials_ = {std::move(keys.access_key_id), std::move(keys.secret_access_key),
                  std::move(keys.session_token)};
  return has_changed;
}

}  // namespace ringload::inline v0::remote_http
