// SPDX-License-Identifier: Apache-2.0
#pragma once

// s3://bucket/key and s3://bucket/prefix as a store.

#include <memory>
#include <ringload/byte_source.hpp>
#include <ringload/s3.hpp>

#include "remote/http/http.hpp"

namespace ringload::inline v0::remote_http {

// A key with the name of a checkpoint's file or of an index is an object; any other is an object
// where no key begins with it and a '/'.
std::shared_ptr<byte_store> make_s3_store(std::shared_ptr<http_client> by, const s3_options& how);

}  // namespace ringload::inline v0::remote_http
