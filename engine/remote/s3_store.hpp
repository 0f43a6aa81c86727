// SPDX-License-Identifier: Apache-2.0
#pragma once

// Opens objects and folders of S3 buckets: s3://bucket/key and s3://bucket/prefix.

#include <memory>
#include <ringload/byte_source.hpp>
#include <ringload/s3.hpp>

#include "remote/http/http.hpp"
#include "remote/s3/s3_address.hpp"

namespace ringload::inline v0::remote_http {

// A key that is empty or ends with '/' is opened as a folder. A key that names a checkpoint file or
// an index is opened as an object. Any other key is opened as a folder if the bucket has keys that
// begin with "key/", and otherwise as an object.
// `scheme` must be a literal.
std::shared_ptr<byte_store> make_s3_store(std::shared_ptr<http_client> client,
                                          const s3_options& options,
                                          std::string_view scheme = s3_scheme);

}  // namespace ringload::inline v0::remote_http
