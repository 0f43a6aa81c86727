// SPDX-License-Identifier: Apache-2.0
#pragma once

// The preparation of a copy: a load whose source is a tensor in memory, in place of a checkpoint.

#include "base/fault.hpp"
#include "load/open.hpp"

namespace ringload::inline v0::detail {

result<opened_load> open_copy(const copy_request& what, const open_services& by);

}  // namespace ringload::inline v0::detail
