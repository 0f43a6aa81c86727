// SPDX-License-Identifier: Apache-2.0
#pragma once

// The machine that a figure belongs to.

#include <string>

namespace ringload::bench {

/// One line: day, processor, memory, kernel, the drive under `path` and its file system.
std::string describe_machine(const std::string& path);

}  // namespace ringload::bench
