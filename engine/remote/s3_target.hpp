// SPDX-License-Identifier: Apache-2.0
#pragma once

// Writes an object of S3. A small object is one PUT. A larger object is a multipart upload, which
// becomes visible when the upload is completed.

#include <memory>
#include <ringload/byte_source.hpp>

#include "remote/http/http.hpp"
#include "remote/s3/s3_address.hpp"
#include "remote/s3_access.hpp"

namespace ringload::inline v0::remote_http {

// Throws if the object must not be replaced and exists, or if the server cannot be asked.
std::shared_ptr<byte_target> make_s3_target(std::shared_ptr<http_client> client, s3_access access,
                                            const s3_address& object,
                                            const target_request& request);

}  // namespace ringload::inline v0::remote_http
