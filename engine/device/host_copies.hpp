// SPDX-License-Identifier: Apache-2.0
#pragma once

// Copies out of a slot into memory of the host, by the CPU.

#include "device/backend.hpp"

namespace ringload::inline v0 {

// Makes all copies of the operation before it returns, in any thread.
void run_copies(const copy_operation& op) noexcept;

}  // namespace ringload::inline v0
