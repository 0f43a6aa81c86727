// SPDX-License-Identifier: Apache-2.0
#pragma once

// Runs a configuration once.

#include "config.hpp"
#include "read_buffer.hpp"
#include "target.hpp"

namespace ringload::bench {

/// Throws `usage_error` if the cell is inconsistent, such as SQPOLL without a ring.
void check(const cell& config);

/// Sets up the page cache and verifies it, reads, and verifies the page cache again if possible.
/// Throws `ringload::error`. Throws `interrupted` after Ctrl-C, when no read is in flight.
measurement run(const target& source, const cell& config, read_buffer& memory);

}  // namespace ringload::bench
