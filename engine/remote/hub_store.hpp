// SPDX-License-Identifier: Apache-2.0
#pragma once

// Models of the Hugging Face hub as a store: hf://owner/model, the addresses of their pages, and
// owner/model.

#include <memory>
#include <ringload/byte_source.hpp>
#include <ringload/hub.hpp>

#include "remote/http/http.hpp"

namespace ringload::inline v0::remote_http {

// If `offline` is set, only the local cache is searched and `client` is not called.
std::shared_ptr<byte_store> make_hub_store(std::shared_ptr<http_client> client,
                                           const hub_options& options, bool offline);

}  // namespace ringload::inline v0::remote_http
