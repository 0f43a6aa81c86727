// SPDX-License-Identifier: Apache-2.0
#pragma once

// One run of one cell.

#include "config.hpp"
#include "read_buffer.hpp"
#include "target.hpp"

namespace ringload::bench {

/// Throws `usage_error` if the cell is inconsistent, such as SQPOLL without a ring.
void check(const cell& what);

/// Sets up the page cache, verifies it, reads, and verifies it again as far as possible. Throws
/// `ringload::error`; `interrupted` after Ctrl-C, when nothing is in flight.
measurement run(const target& of, const cell& what, room& memory);

}  // namespace ringload::bench
