// SPDX-License-Identifier: Apache-2.0

#include "remote/s3_access.hpp"

#include <chrono>
#include <utility>

#include "base/printable.hpp"
#include "remote/s3/s3_list.hpp"
#include "remote/s3/s3_signature.hpp"

namespace ringload::inline v0::remote_http {

void s3_access::authorize(remote_object& object) const {
  if (!is_signed()) return;
  object.sign = [keys = keys,
                 region = std::string(region_of(place))](const outgoing_request& request) {
    // Fields such as Range are not signed, because a proxy may change these fields.
    const outgoing_request bare = {request.method, request.to, {}, request.body_sha256};
    const auto now = std::chrono::floor<std::chrono::seconds>(std::chrono::system_clock::now());
    return sign_s3(bare, keys->current(), region, now);
  };
  if (!keys->can_renew()) return;
  object.renew = [keys = keys](s3_keyring::clock::time_point signed_at) {
    return keys->renew(signed_at);
  };
}

fault s3_access::explained(const small_response& refusal, const std::string& shown_name) const {
  s3_refusal details = {refusal.status, parse_s3_error(refusal.body), is_signed(),
                        missing_keys_reason};
  const std::string* const region = refusal.field(s3_region_field);
  if (region != nullptr && details.error.region.empty()) details.error.region = printable(*region);
  return s3_fault(details, shown_name);
}

std::string s3_access::shown(const std::string& bucket, std::string_view key) const {
  return printable_path(std::string(scheme) + bucket + "/" + std::string(key));
}

}  // namespace ringload::inline v0::remote_http
