// SPDX-License-Identifier: Apache-2.0
#include "machine.hpp"

#include <fmt/core.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/utsname.h>

#include <boost/version.hpp>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <thread>

namespace ringload::bench {

namespace {

std::string first_line(const std::filesystem::path& file) {
  std::ifstream in(file);
  std::string line;
  std::getline(in, line);
  return line;
}

// What follows "key<blanks>: " in a file of /proc.
std::string value_of(const char* file, const std::string& key) {
  std::ifstream in(file);
  for (std::string line; std::getline(in, line);) {
    if (!line.starts_with(key)) continue;
    const auto colon = line.find(':');
    const auto begin = line.find_first_not_of(" \t", colon + 1);
    if (colon != std::string::npos && begin != std::string::npos) return line.substr(begin);
  }
  return "unknown";
}

std::string drive_of(const std::string& path) {
  struct ::stat status = {};
  if (::stat(path.c_str(), &status) != 0) return "unknown drive";
  const auto wanted = fmt::format("{}:{}", major(status.st_dev), minor(status.st_dev));
  std::string type = "unknown file system";
  std::ifstream mounts("/proc/self/mountinfo");
  for (std::string line; std::getline(mounts, line);) {
    if (line.find(" " + wanted + " ") == std::string::npos) continue;
    const auto after = line.find(" - ");
    if (after != std::string::npos)
      type = line.substr(after + 3, line.find(' ', after + 3) - after - 3);
    break;
  }
  std::error_code ignored;
  const auto device = std::filesystem::canonical("/sys/dev/block/" + wanted, ignored);
  // A partition's queue is its parent's.
  auto queue = device / "queue";
  if (!std::filesystem::exists(queue, ignored)) queue = device.parent_path() / "queue";
  return fmt::format("{} on {}, max_sectors_kb {}, max_segments {}, nr_requests {}, scheduler {}",
                     type, device.filename().string(), first_line(queue / "max_sectors_kb"),
                     first_line(queue / "max_segments"), first_line(queue / "nr_requests"),
                     first_line(queue / "scheduler"));
}

}  // namespace

std::string describe_machine(const std::string& path) {
  struct ::utsname kernel = {};
  ::uname(&kernel);
  const std::time_t now = std::time(nullptr);
  struct ::tm day = {};
  ::gmtime_r(&now, &day);
  const std::string date =
      fmt::format("{:04}-{:02}-{:02}", day.tm_year + 1900, day.tm_mon + 1, day.tm_mday);
  const std::string boost =
      fmt::format("{}.{}", BOOST_VERSION / 100000, BOOST_VERSION / 100 % 1000);
  return fmt::format("{}; {} processors, {}; {} of memory; Linux {}; {}; liburing {}, Boost {}",
                     date, std::thread::hardware_concurrency(),
                     value_of("/proc/cpuinfo", "model name"), value_of("/proc/meminfo", "MemTotal"),
                     kernel.release, drive_of(path), LIBURING_VERSION, boost);
}

}  // namespace ringload::bench
