// SPDX-License-Identifier: Apache-2.0
#pragma once

// s3://bucket/key and s3://bucket/prefix as a store.

#include <memory>
#include <ringload/byte_source.hpp>
#include <ringload/s3.hpp>

#include "remote/http/http.hpp"

namespace ringload::inline v0::remote_http {

// A key is an object if it has the name of a checkpoint file or of an index. Any other key is a
// folder if other keys begin with the key and a '/', else an object.
std::shared_ptr<byte_store> make_s3_store(std::shared_ptr<http_client> client,
                                          const s3_options& options);

}  // namespace ringload::inline v0::remote_http
