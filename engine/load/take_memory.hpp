// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "base/fault.hpp"
#include "load/open.hpp"

namespace ringload::inline v0::detail {

// Allocates or maps the memory of all arenas of the plan. After a failure, `load` still owns the
// memory that was taken.
result<void> take_memory(opened_load& load, const plan_input_builder& builder, mapped_access access,
                         const device_set& devices);

}  // namespace ringload::inline v0::detail
