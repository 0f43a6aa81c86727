// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "remote/http/http.hpp"
#include "remote/http/settings.hpp"

namespace ringload::inline v0::remote_http {

// Starts the network threads. The threads end after the client and all its sources are destroyed.
// Throws std::system_error if a thread cannot be started.
std::shared_ptr<http_client> make_client(client_settings settings);

}  // namespace ringload::inline v0::remote_http
