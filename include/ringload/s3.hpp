// SPDX-License-Identifier: Apache-2.0
#pragma once

// Options for s3://bucket/key and s3://bucket/prefix in the component `remote`, for Amazon S3 and
// for services with the same protocol.

#include <optional>
#include <string>

namespace ringload::inline v0 {

struct s3_options {
  s3_options() {}

  /// Empty: the region of the bucket according to Amazon; us-east-1 for another endpoint.
  std::string region;
  /// The address "https://host[:port]" of another service: "https://storage.googleapis.com". Empty:
  /// Amazon.
  std::string endpoint;
  /// Whether the bucket is in the path (https://host/bucket/key) or in the host name. Empty: in the
  /// path if `endpoint` is set, or if the bucket's name has a dot.
  std::optional<bool> path_style;

  /// If access_key_id is empty, requests are not signed, and only public objects can be read.
  std::string access_key_id;
  std::string secret_access_key;
  std::string session_token;  // For temporary credentials; else empty.
  /// The reason for a missing key, if a program has searched for a key. The reason is added to the
  /// error if a server refuses an unsigned request.
  std::string missing_keys_reason;
};

}  // namespace ringload::inline v0
