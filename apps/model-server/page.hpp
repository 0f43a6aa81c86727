// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

namespace ringload::server {

/// The HTML page at the path /. The page shows the models and their progress, and has a form that
/// begins a load.
extern const std::string_view page;

/// The content security policy: the page may run its own script, and send requests to its own
/// server.
inline constexpr std::string_view page_policy =
    "default-src 'none'; connect-src 'self'; script-src 'unsafe-inline'; style-src "
    "'unsafe-inline'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

}  // namespace ringload::server
