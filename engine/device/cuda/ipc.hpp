// SPDX-License-Identifier: Apache-2.0
#pragma once

// Memory of a device that several processes have open, by handles of the driver. Whoever allocated
// it must not free it while another has it open.

#include <cstdint>
#include <memory>

#include "core/fault.hpp"
#include "device/cuda/device_memory.hpp"
#include "device/exported_memory.hpp"

namespace ringload::inline v0::cuda {

// `base` is what cudaMalloc gave.
result<exported_memory> export_memory(int device, void* base, std::uint64_t bytes);

// Opens memory of another process, of the same device; `keeps` is let go of when it is closed.
result<std::unique_ptr<taken_memory>> import_memory(int device, const exported_memory& what,
                                                    std::shared_ptr<const void> keeps);

}  // namespace ringload::inline v0::cuda
