// SPDX-License-Identifier: Apache-2.0
#pragma once

// Chooses the loaded tensors that load_options::verify checks after landing, and their digests.

#include <ringload/verify.hpp>
#include <vector>

#include "base/fault.hpp"
#include "catalog/opened_checkpoint.hpp"
#include "request/check_queue.hpp"
#include "request/choose.hpp"
#include "request/plan_input_builder.hpp"

namespace ringload::inline v0::detail {

// Returns a check for each chosen tensor, or an empty vector if no tensor is checked after landing.
// The manifest and the checkpoint own the digests. Fails with errc::digest_unavailable or
// errc::incomplete_manifest if a required check is impossible. Blocks: the function reads and
// compares the digests of tensors that no load reads.
result<std::vector<tensor_check>> choose_digests(const opened_checkpoint& from,
                                                 const std::vector<chosen_tensor>& chosen,
                                                 const plan_input_builder& wanted,
                                                 const verification& verify, bool fills);

}  // namespace ringload::inline v0::detail
