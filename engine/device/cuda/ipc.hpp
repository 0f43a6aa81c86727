// SPDX-License-Identifier: Apache-2.0
#pragma once

// Device memory that several processes have open by driver handles. The allocating process must not
// free it while another process has it open.

#include <cstdint>
#include <memory>

#include "base/fault.hpp"
#include "device/cuda/device_memory.hpp"
#include "device/exported_memory.hpp"

namespace ringload::inline v0::cuda {

// `base` must be the result of cudaMalloc.
result<exported_memory> export_memory(int device, void* base, std::uint64_t bytes);

// Opens memory of another process on the same device. `keeps` is released when the memory is
// closed.
result<std::unique_ptr<taken_memory>> import_memory(int device, const exported_memory& exported,
                                                    std::shared_ptr<const void> keeps);

}  // namespace ringload::inline v0::cuda
