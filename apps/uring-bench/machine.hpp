// SPDX-License-Identifier: Apache-2.0
#pragma once

// A description of the machine, for reports.

#include <sys/types.h>

#include <string>
#include <utility>
#include <vector>

namespace ringload::bench {

using facts = std::vector<std::pair<std::string, std::string>>;

/// Names and values, for a table: day, processor, memory, kernel, the drive under `path`, versions.
facts machine_facts(const std::string& path);

/// The same in one line.
std::string describe_machine(const std::string& path);

/// "ext4"; the type of the file system that `path` is on.
std::string file_system_of(const std::string& path);

/// The folder of sysfs with the settings of the drive's queue; empty where there is none.
std::string queue_folder(::dev_t drive);

/// The first line of a small file, as of sysfs; empty where it cannot be read.
std::string first_line(const std::string& file);

}  // namespace ringload::bench
