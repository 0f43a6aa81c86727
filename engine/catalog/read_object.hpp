// SPDX-License-Identifier: Apache-2.0
#pragma once

// A read of a byte_source that is waited for.

#include <ringload/byte_source.hpp>

#include "base/fault.hpp"

namespace ringload::inline v0 {

// Blocks until the source lets go of the memory; stopped, it fails with operation_aborted.
result<void> read_object(byte_source& from, const source_read& what);

}  // namespace ringload::inline v0
