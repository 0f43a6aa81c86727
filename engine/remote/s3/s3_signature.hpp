// SPDX-License-Identifier: Apache-2.0
#pragma once

// Requests of S3 signed by AWS Signature Version 4: for GET and HEAD, which have no body. Pure but
// for the hashes, which are OpenSSL's.

#include <chrono>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/fault.hpp"
#include "remote/http/http.hpp"

namespace ringload::inline v0::remote_http {

struct s3_credentials {
  std::string access_key_id;  // Empty: requests are not signed.
  std::string secret_access_key;
  std::string session_token;  // Of temporary credentials; else empty.
};

// The fields to be added to the request: X-Amz-Date, X-Amz-Content-Sha256, Authorization, and with
// a session token X-Amz-Security-Token. The fields of `request` are signed too. The target is taken
// as it is, so it must be percent-encoded once, and its query sorted by name.
std::vector<header_field> sign_s3(const outgoing_request& request, const s3_credentials& by,
                                  std::string_view region, std::chrono::sys_seconds at);

// The SHA-256 of the bytes as 64 hexadecimal digits.
std::string sha256_hex(std::string_view bytes);

}  // namespace ringload::inline v0::remote_http
