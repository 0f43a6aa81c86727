// SPDX-License-Identifier: Apache-2.0
#pragma once

// Builds the catalog of the tensors that a selection has chosen. Pure functions.

#include <ringload/catalog.hpp>
#include <vector>

#include "base/fault.hpp"
#include "request/choose.hpp"

namespace ringload::inline v0 {

// Returns the catalog of `tensors`. Fails with errc::fractional_bytes if a chosen range is not a
// whole number of bytes. Fails with errc::size_overflow if the number of bits of a fused tensor
// does not fit in 64 bits.
result<catalog> catalog_of(const catalog& from, const std::vector<chosen_tensor>& tensors);

}  // namespace ringload::inline v0
