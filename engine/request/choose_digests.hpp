// SPDX-License-Identifier: Apache-2.0
#pragma once

// What load_options::verify asks for, of the tensors that are loaded: which of them is to be looked
// at once it has landed, and what it must be.

#include <ringload/verify.hpp>
#include <vector>

#include "base/fault.hpp"
#include "catalog/opened_checkpoint.hpp"
#include "request/check_queue.hpp"
#include "request/choose.hpp"
#include "request/plan_input_builder.hpp"

namespace ringload::inline v0::detail {

// By chosen tensor; empty: nothing is checked once it has landed. The digests are those of the
// manifest and of the checkpoint. What cannot be checked though it must is
// errc::digest_unavailable or errc::incomplete_manifest. Blocks: digests of tensors for which
// nothing is read are compared here.
result<std::vector<tensor_check>> choose_digests(const opened_checkpoint& from,
                                                 const std::vector<chosen_tensor>& which,
                                                 const plan_input_builder& wanted,
                                                 const verification& how, bool fills);

}  // namespace ringload::inline v0::detail
