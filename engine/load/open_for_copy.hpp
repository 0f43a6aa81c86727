// SPDX-License-Identifier: Apache-2.0
#pragma once

// Prepares a copy of a tensor to another device or dtype. The copy is a load whose source is a
// tensor in memory instead of a file.

#include "base/fault.hpp"
#include "load/open.hpp"

namespace ringload::inline v0::detail {

result<opened_load> open_copy(const copy_request& request, const open_services& services);

}  // namespace ringload::inline v0::detail
