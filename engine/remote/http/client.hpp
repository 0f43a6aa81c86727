// SPDX-License-Identifier: Apache-2.0
#pragma once

// The HTTP client, which runs transfers on its lanes.

#include <memory>

#include "remote/http/http.hpp"
#include "remote/http/settings.hpp"

namespace ringload::inline v0::remote_http {

// Starts the lanes' threads. The threads end after the client and all its sources are destroyed.
// Throws std::system_error.
std::shared_ptr<http_client> make_client(client_settings settings);

}  // namespace ringload::inline v0::remote_http
