// SPDX-License-Identifier: Apache-2.0
#pragma once

// Checks that all ranks (processes or threads) of a group make the same call. Rank 0 compares the
// calls and sends the result to all ranks.

#include <ringload/group.hpp>
#include <string>

#include "base/fault.hpp"

namespace ringload::inline v0::detail {

// Must be called by all ranks. `call` describes the call of this rank as text. All ranks return the
// same result: success, or errc::mismatched_call. The error names the first rank whose text differs
// from the text of rank 0, and shows at most 400 bytes of both texts. Throws the exceptions of the
// group.
result<void> check_same_call(group& rank_group, const std::string& call);

}  // namespace ringload::inline v0::detail
