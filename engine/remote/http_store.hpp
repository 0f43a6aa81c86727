// SPDX-License-Identifier: Apache-2.0
#pragma once

// Opens files on web servers by their http:// and https:// addresses. All files of a checkpoint
// must be in one folder of the server, or in its sub-folders.

#include <memory>
#include <ringload/azure.hpp>
#include <ringload/byte_source.hpp>

#include "remote/http/http.hpp"

namespace ringload::inline v0::remote_http {

std::shared_ptr<byte_store> make_http_store(std::shared_ptr<http_client> client);
// Opens az://account/container/key. All requests have the query of the shared access signature.
std::shared_ptr<byte_store> make_azure_store(std::shared_ptr<http_client> client,
                                             const azure_options& options);

}  // namespace ringload::inline v0::remote_http
