// SPDX-License-Identifier: Apache-2.0
#pragma once

// The client: lanes, and what is asked of them.

#include <memory>

#include "remote/http/http.hpp"
#include "remote/http/settings.hpp"

namespace ringload::inline v0::remote_http {

// Starts the lanes' threads, which end once the client and all that it has opened are gone. Throws
// std::system_error.
std::shared_ptr<http_client> make_client(client_settings how);

}  // namespace ringload::inline v0::remote_http
