// SPDX-License-Identifier: Apache-2.0
#pragma once

// Texts that must be equal on all ranks (ranks/check_same_call.hpp).

#include <string>

#include "ranks/group_job.hpp"

namespace ringload::inline v0::detail {

// A digest covers a whole tensor. If digests are checked, each tensor must be read by one rank.
bool may_split(const group_options& options) noexcept;

// Returns a text that is equal on two ranks if three conditions hold: the catalogs have the same
// tensors, the options have the same dtypes and the same `reading`, and may_split() returns the
// same value. The paths of the files may differ.
std::string identity_of(const catalog& contents, const group_options& options);

// Returns a call as text, for example "shard('wte.weight', 0)".
std::string text_of(const group_call& call);

}  // namespace ringload::inline v0::detail
