// SPDX-License-Identifier: Apache-2.0
#pragma once

// Options for checkpoints named s3://bucket/key or s3://bucket/prefix. The component `remote` is
// required. The options apply to Amazon S3, and to other services with the same protocol.
//
// A save to s3://bucket/key.safetensors or s3://bucket/key.zt uploads parts, and completes the
// upload when all parts have arrived. Until then, an existing object is unchanged. An upload needs
// 64 MiB of memory for parts. An object of more than 312 GiB has parts of more than 32 MiB, and its
// upload needs memory for two parts. If the process is killed, the uploaded parts remain. The
// bucket needs a lifecycle rule that removes these parts (AbortIncompleteMultipartUpload).

#include <functional>
#include <optional>
#include <ringload/export.hpp>
#include <string>

namespace ringload::inline v0 {

/// Credentials of S3.
struct s3_keys {
  std::string access_key_id;      // The access key.
  std::string secret_access_key;  // The secret of the access key.
  std::string session_token;      // The token of temporary credentials. Otherwise empty.
};

/// Options for S3 and for services with the same protocol.
struct s3_options {
  RINGLOAD_OPTION_STRUCT(s3_options)

  /// The region of the bucket. If empty, ringload requests the region from Amazon. For other
  /// endpoints, an empty region means us-east-1.
  std::string region = {};
  /// The address of another service, "https://host[:port]", such as
  /// "https://storage.googleapis.com". Empty means Amazon.
  std::string endpoint = {};
  /// If true, the bucket is in the path (https://host/bucket/key). If false, the bucket is in the
  /// host name (https://bucket.host/key). If empty, the bucket is in the path if `endpoint` is set,
  /// or if the name of the bucket contains a dot, a capital letter or a '_'.
  std::optional<bool> path_style = {};

  /// The access key. If empty, requests are not signed, so only public objects can be read.
  std::string access_key_id = {};
  std::string secret_access_key = {};  // The secret of the access key.
  std::string session_token = {};      // The token of temporary credentials. Otherwise empty.
  /// Returns new credentials after temporary credentials have expired. Returns an empty optional if
  /// no other credentials exist. Called if a server refuses a signed request (400, 401 or 403). If
  /// the function returns other credentials, the request is repeated once, and later requests use
  /// these credentials.
  ///
  /// Called in a network thread, whose other requests wait meanwhile. Calls do not overlap. If the
  /// function throws an exception, the request fails as if there were no other credentials.
  std::function<std::optional<s3_keys>()> renew = nullptr;
  /// The reason why the program found no access key. If a server refuses a request that is not
  /// signed, the error contains this text.
  std::string missing_keys_reason = {};
};

}  // namespace ringload::inline v0
