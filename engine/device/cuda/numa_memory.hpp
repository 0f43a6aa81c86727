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

// Asks Linux to place absent pages of the memory on the device's node if the node has free pages.
// Does nothing if CUDA does not report the device's node.
void place_near(std::span<std::byte> memory, int device) noexcept;

// Returns the processors of the device's node. Returns an empty optional if CUDA does not report
// the node, or if Linux does not list the processors of the node. `nodes` is the folder in which
// Linux describes the nodes. Tests pass another folder.
std::optional<cpu_set_t> processors_near(int device,
                                         const std::string& nodes = "/sys/devices/system/node");

}  // namespace ringload::inline v0::cuda
