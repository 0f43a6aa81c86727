// SPDX-License-Identifier: Apache-2.0
#pragma once

// Chooses the tensors that are checked during the load, and their expected digests, according to
// load_options::verify.

#include <ringload/verify.hpp>
#include <vector>

#include "base/fault.hpp"
#include "catalog/opened_checkpoint.hpp"
#include "request/check_queue.hpp"
#include "request/choose.hpp"
#include "request/plan_input_builder.hpp"

namespace ringload::inline v0::detail {

// Returns a check for each chosen tensor, or an empty vector if no tensor is checked. The checksum
// list and the checkpoint own the digests. Fails with errc::digest_unavailable or
// errc::incomplete_checksum_list if a required check is impossible. `is_fill` must be true for a
// load into memory of the caller, which does not check the indices of sparse objects.
//
// A tensor without elements can have stored bytes with a digest. The load does not read these
// bytes. Therefore this function reads the bytes and verifies the digest, and may block.
result<std::vector<tensor_check>> choose_digests(const opened_checkpoint& from,
                                                 const std::vector<chosen_tensor>& chosen,
                                                 const plan_input_builder& builder,
                                                 const verification& verify, bool is_fill);

}  // namespace ringload::inline v0::detail
