// SPDX-License-Identifier: Apache-2.0
#pragma once

// Addresses of web servers as a store: one file and the files of the same folder.

#include <memory>
#include <ringload/byte_source.hpp>

#include "remote/http/http.hpp"

namespace ringload::inline v0::remote_http {

std::shared_ptr<byte_store> make_http_store(std::shared_ptr<http_client> client);

}  // namespace ringload::inline v0::remote_http
