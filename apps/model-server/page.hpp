// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

namespace ringload::server {

/// The page at /: the models and their progress, live, and a form to load one.
extern const std::string_view page;

/// What the page may do: run its own script, and talk to the server it came from.
inline constexpr std::string_view page_policy =
    "default-src 'none'; connect-src 'self'; script-src 'unsafe-inline'; style-src "
    "'unsafe-inline'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

}  // namespace ringload::server
