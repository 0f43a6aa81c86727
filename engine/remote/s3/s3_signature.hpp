// SPDX-License-Identifier: Apache-2.0
#pragma once

// Signs requests by AWS Signature Version 4. The signature covers the SHA-256 of the body. Pure
// functions. OpenSSL computes the hashes.

#include <chrono>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/fault.hpp"
#include "remote/http/http.hpp"

namespace ringload::inline v0::remote_http {

struct s3_credentials {
  std::string access_key_id;  // Empty if requests are not signed.
  std::string secret_access_key;
  std::string session_token;  // Empty unless the credentials are temporary.
};

// Returns the fields to add to the request: X-Amz-Date, X-Amz-Content-Sha256, Authorization, and
// X-Amz-Security-Token if there is a session token. The signature also covers the fields of
// `request`. The target must be percent-encoded once, and its query must be sorted by name.
std::vector<header_field> sign_s3(const outgoing_request& request,
                                  const s3_credentials& credentials, std::string_view region,
                                  std::chrono::sys_seconds now);

// Returns the SHA-256 of `bytes` as 64 hexadecimal digits.
std::string sha256_hex(std::string_view bytes);

}  // namespace ringload::inline v0::remote_http
