// SPDX-License-Identifier: Apache-2.0
#pragma once

// Describes the machine, for reports.

#include <sys/types.h>

#include <string>
#include <utility>
#include <vector>

namespace ringload::bench {

using facts = std::vector<std::pair<std::string, std::string>>;

/// Returns names and values for a table: day, processor, memory, kernel, the drive of `path`,
/// versions.
facts machine_facts(const std::string& path);

/// Returns the same description in one line.
std::string describe_machine(const std::string& path);

/// Returns the type of the file system of `path`, such as "ext4".
std::string file_system_of(const std::string& path);

/// Returns the sysfs folder with the settings of the drive's queue, or an empty path.
std::string queue_folder(::dev_t drive);

/// Returns the first line of a small file, such as a sysfs file. Returns an empty string if the
/// file cannot be read.
std::string first_line(const std::string& file);

}  // namespace ringload::bench
