// SPDX-License-Identifier: Apache-2.0
#pragma once

// One run of one cell.

#include "cell.hpp"
#include "room.hpp"
#include "target.hpp"

namespace ringload::bench {

/// Throws `usage_error` where the cell contradicts itself, as SQPOLL without a ring.
void check(const cell& what);

/// Establishes the page cache's state, verifies it, reads, and verifies what can be seen of it
/// afterwards. Throws `ringload::error`; `interrupted` after Ctrl-C, when nothing is in flight.
measurement run(const target& of, const cell& what, room& memory);

}  // namespace ringload::bench
