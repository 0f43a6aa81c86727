// SPDX-License-Identifier: Apache-2.0
#pragma once

// The catalog of what a selection chose. Pure.

#include <ringload/catalog.hpp>
#include <vector>

#include "base/fault.hpp"
#include "request/choose.hpp"

namespace ringload::inline v0 {

// The catalog of these tensors. A number of bytes that is no whole number is
// errc::fractional_bytes.
result<catalog> catalog_of(const catalog& from, const std::vector<chosen_tensor>& which);

}  // namespace ringload::inline v0
