// SPDX-License-Identifier: Apache-2.0
#pragma once

// A blocking read of a byte_source.

#include <ringload/byte_source.hpp>

#include "base/fault.hpp"

namespace ringload::inline v0 {

// Blocks until the source releases the memory. Fails with operation_aborted if stopped.
result<void> read_object(byte_source& from, const source_read& request);

}  // namespace ringload::inline v0
