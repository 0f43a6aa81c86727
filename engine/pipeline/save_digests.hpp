// SPDX-License-Identifier: Apache-2.0
#pragma once

// The digests of tensors that are saved, made of their bytes in memory while these are written.

#include <memory>

namespace ringload::inline v0::detail {

class engine;
class save_job;

// Begins the coroutines that hash all tensors of the save, in the check threads. It is not quiet
// before they have ended.
void begin_digests(engine& e, const std::shared_ptr<save_job>& one);

}  // namespace ringload::inline v0::detail
