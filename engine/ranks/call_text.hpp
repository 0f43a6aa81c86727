// SPDX-License-Identifier: Apache-2.0
#pragma once

// Texts that describe the calls of a rank (a process or thread of a group). check_same_call()
// compares these texts between the ranks.

#include <string>

#include "ranks/group_job.hpp"

namespace ringload::inline v0::detail {

// Returns true if different ranks may read parts of one tensor. Returns false if digests of the
// files are verified, because a digest covers a whole tensor.
bool may_split(const group_options& options) noexcept;

// Returns a text that describes the opened checkpoint and the options. The texts of two ranks are
// equal if the catalogs list the same tensors, and if the dtypes in memory, `reading` and
// may_split() are equal. The paths of the files may differ.
std::string load_identity_text(const catalog& contents, const group_options& options);

// Returns a call as text, for example "shard('wte.weight', 0)".
std::string text_of(const group_call& call);

}  // namespace ringload::inline v0::detail
