// SPDX-License-Identifier: Apache-2.0
#pragma once

// Checks that all ranks make the same call. Rank 0 receives the calls of all ranks and sends the
// verdict to all.

#include <ringload/group.hpp>
#include <string>

#include "base/fault.hpp"

namespace ringload::inline v0::detail {

// Compares whole texts; messages show up to a few hundred bytes. All ranks get the same result:
// success, or errc::mismatched_call with the first rank that differs. Throws the exceptions of the
// group.
result<void> agree(group& ranks, const std::string& call);

}  // namespace ringload::inline v0::detail
