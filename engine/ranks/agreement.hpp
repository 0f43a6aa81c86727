// SPDX-License-Identifier: Apache-2.0
#pragma once

// Whether all ranks are doing the same. Rank 0 is told by all what they do, and tells all whether
// it differs.

#include <ringload/group.hpp>
#include <string>

#include "core/fault.hpp"

namespace ringload::inline v0::detail {

// Texts are compared whole, and shown up to a few hundred bytes. The same result on all ranks:
// errc::mismatched_call, with the first rank that differs. Throws what the group throws.
result<void> agree(group& all, const std::string& does);

}  // namespace ringload::inline v0::detail
