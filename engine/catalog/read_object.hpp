// SPDX-License-Identifier: Apache-2.0
#pragma once

// Reads bytes of an object of a store, and waits for the bytes.

#include <ringload/byte_source.hpp>
#include <ringload/export.hpp>

#include "base/fault.hpp"

namespace ringload::inline v0 {

// Blocks until the source no longer uses the memory of the request. Returns operation_aborted if
// the read succeeds after a stop was requested.
RINGLOAD_EXPORT result<void> read_object(byte_source& object, const source_read& request);

}  // namespace ringload::inline v0
