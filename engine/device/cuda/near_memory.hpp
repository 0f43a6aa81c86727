// SPDX-License-Identifier: Apache-2.0
#pragma once

// Host memory on the NUMA node that a device is connected to: from another node its copies cross
// the link between the processors as well.

#include <cstddef>
#include <span>

namespace ringload::inline v0::cuda {

// Pages of the memory that are not there yet will lie on the device's node while it has free ones.
// Where the machine has one node, or does not say, nothing changes.
void place_near(std::span<std::byte> memory, int device) noexcept;

}  // namespace ringload::inline v0::cuda
