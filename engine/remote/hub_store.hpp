// SPDX-License-Identifier: Apache-2.0
#pragma once

// Opens models of the Hugging Face hub. The name of a model is hf://owner/model, owner/model, or
// the address of its page, such as https://huggingface.co/owner/model. See hub_address.hpp.

#include <memory>
#include <ringload/byte_source.hpp>
#include <ringload/hub.hpp>

#include "remote/http/http.hpp"

namespace ringload::inline v0::remote_http {

// If `offline` is set, the store searches only the local cache and never calls `client`.
std::shared_ptr<byte_store> make_hub_store(std::shared_ptr<http_client> client,
                                           const hub_options& options, bool offline);

}  // namespace ringload::inline v0::remote_http
