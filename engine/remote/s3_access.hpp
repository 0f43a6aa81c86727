// SPDX-License-Identifier: Apache-2.0
#pragma once

// The address of an S3 service and its credentials. Used by s3_store and s3_target.

#include <memory>
#include <string>
#include <string_view>

#include "remote/s3/s3_address.hpp"
#include "remote/s3/s3_keyring.hpp"

namespace ringload::inline v0::remote_http {

inline constexpr std::string_view s3_region_field = "x-amz-bucket-region";

// Copied for each bucket, because buckets may have different regions.
struct s3_access {
  s3_place place;
  std::shared_ptr<s3_keyring> keys;
  std::string missing_keys_reason;
  std::string_view scheme = s3_scheme;

  bool is_signed() const { return !keys->current().access_key_id.empty(); }
  // Sets two functions of `object`: one signs a request, and the other renews the credentials.
  void authorize(remote_object& object) const;
  // Returns the fault for a response that refuses a request.
  fault explained(const small_response& refusal, const std::string& shown_name) const;
  // Returns the name of an object for error texts.
  std::string shown(const std::string& bucket, std::string_view key) const;
};

}  // namespace ringload::inline v0::remote_http
