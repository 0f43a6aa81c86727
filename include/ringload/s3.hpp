// SPDX-License-Identifier: Apache-2.0
#pragma once

// How the component `remote` reads s3://bucket/key and s3://bucket/prefix: from Amazon S3, and from
// whatever speaks its protocol.

#include <optional>
#include <string>

namespace ringload::inline v0 {

struct s3_options {
  s3_options() {}

  /// Empty: what Amazon says a bucket's region is; of another endpoint us-east-1.
  std::string region;
  /// "https://host[:port]" of another service: "https://storage.googleapis.com". Empty: Amazon's.
  std::string endpoint;
  /// Whether the bucket stands in the path (https://host/bucket/key) or in the host's name. Empty:
  /// in the path where there is an endpoint, or where the bucket's name has a dot.
  std::optional<bool> path_style;

  /// With an empty access_key_id requests are not signed, and only what is public can be read.
  std::string access_key_id;
  std::string secret_access_key;
  std::string session_token;  ///< Of temporary credentials; else empty.
  /// Why there is no key, if a program has looked for one: added to the error where a server
  /// refuses a request because it is not signed.
  std::string missing_keys_reason;
};

}  // namespace ringload::inline v0
