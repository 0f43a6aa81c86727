// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "device/backend.hpp"

namespace ringload::inline v0 {

// Makes all copies of the operation on the CPU, and returns when they are complete. Thread-safe.
void run_copies(const copy_operation& op) noexcept;

}  // namespace ringload::inline v0
