// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

#include "base/fault.hpp"

namespace ringload::inline v0::cuda {

// Returns a text with the needed and the free number of bytes, for errors of later allocations. If
// fewer than `bytes` - `kept_bytes` bytes are free, returns memory_exceeded with this text. Selects
// the device for the calling thread.
result<std::string> describe_free_memory(int index, std::uint64_t bytes, std::uint64_t kept_bytes);

}  // namespace ringload::inline v0::cuda
