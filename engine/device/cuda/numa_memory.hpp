// SPDX-License-Identifier: Apache-2.0
#pragma once

// Places host memory on the NUMA node that a device is connected to. Copies from another node would
// also cross the link between the CPUs.

#include <cstddef>
#include <span>

namespace ringload::inline v0::cuda {

// Makes absent pages of the memory prefer the device's node while it has free pages. Does nothing
// if the machine has one node or does not report nodes.
void place_near(std::span<std::byte> memory, int device) noexcept;

}  // namespace ringload::inline v0::cuda
