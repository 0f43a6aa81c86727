// SPDX-License-Identifier: Apache-2.0
#pragma once

// Places slots (I/O buffers) on the NUMA node to which a device is connected. Copies from another
// node would also use the link between the CPUs.

#include <sched.h>

#include <cstddef>
#include <optional>
#include <span>
#include <string>

namespace ringload::inline v0::cuda {

// Asks the kernel to place absent pages of the memory on the device's node if the node has free
// pages. Does nothing if the machine has only one node or does not report nodes.
void place_near(std::span<std::byte> memory, int device) noexcept;

// Returns the processors of the device's node. Returns an empty optional if the machine does not
// report them. The kernel describes the nodes in the folder `nodes`. Tests pass another.
std::optional<cpu_set_t> processors_near(int device,
                                         const std::string& nodes = "/sys/devices/system/node");

}  // namespace ringload::inline v0::cuda
