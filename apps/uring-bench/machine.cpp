// SPDX-License-Identifier: Apache-2.0
#include "machine.hpp"

#include <fmt/format.h>
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

// Returns the text after "key<blanks>: " in a file of /proc.
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

std::string today() {
  const std::time_t now = std::time(nullptr);
  struct ::tm day = {};
  ::gmtime_r(&now, &day);
  return fmt::format("{:04}-{:02}-{:02}", day.tm_year + 1900, day.tm_mon + 1, day.tm_mday);
}

std::string kernel() {
  struct ::utsname names = {};
  ::uname(&names);
  return std::string(names.sysname) + " " + names.release;
}

std::filesystem::path device_folder(::dev_t drive) {
  std::error_code failed;
  return std::filesystem::canonical(fmt::format("/sys/dev/block/{}:{}", major(drive), minor(drive)),
                                    failed);
}

::dev_t drive_of(const std::string& path) {
  struct ::stat status = {};
  if (::stat(path.c_str(), &status) != 0) return 0;
  return S_ISBLK(status.st_mode) ? status.st_rdev : status.st_dev;
}

std::string drive_text(const std::string& path) {
  const ::dev_t drive = drive_of(path);
  const std::string queue = queue_folder(drive);
  std::string text = file_system_of(path);
  if (queue.empty()) return text + ", on no block device";
  text += " on " + device_folder(drive).filename().string();
  for (const char* setting : {"max_sectors_kb", "max_segments", "nr_requests", "scheduler"}) {
    text += fmt::format(", {} {}", setting, first_line(queue + "/" + setting));
  }
  return text;
}

}  // namespace

std::string first_line(const std::string& file) {
  std::ifstream in(file);
  std::string line;
  std::getline(in, line);
  return line;
}

std::string file_system_of(const std::string& path) {
  struct ::stat status = {};
  if (::stat(path.c_str(), &status) != 0) return "unknown file system";
  if (S_ISBLK(status.st_mode)) return "block device";
  const auto device_numbers = fmt::format(" {}:{} ", major(status.st_dev), minor(status.st_dev));
  std::ifstream mounts("/proc/self/mountinfo");
  for (std::string line; std::getline(mounts, line);) {
    if (line.find(device_numbers) == std::string::npos) continue;
    const auto after = line.find(" - ");
    if (after == std::string::npos) break;
    return line.substr(after + 3, line.find(' ', after + 3) - after - 3);
  }
  return "unknown file system";
}

std::string queue_folder(::dev_t drive) {
  const std::filesystem::path device = device_folder(drive);
  if (device.empty()) return {};
  std::error_code failed;
  // The parent folder of a partition has the queue.
  for (const auto& folder : {device, device.parent_path()}) {
    if (std::filesystem::is_directory(folder / "queue", failed)) return folder / "queue";
  }
  return {};
}

facts machine_facts(const std::string& path) {
  return {
      {"date", today()},
      {"processors", fmt::format("{} x {}", std::thread::hardware_concurrency(),
                                 value_of("/proc/cpuinfo", "model name"))},
      {"memory", value_of("/proc/meminfo", "MemTotal")},
      {"kernel", kernel()},
      {"drive", drive_text(path)},
      {"libraries",
       fmt::format("liburing {}, Boost {}.{}, ringload {}", LIBURING_VERSION,

                   BOOST_VERSION / 100000, BOOST_VERSION / 100 % 1000, RINGLOAD_VERSION)},
  };
}

std::string describe_machine(const std::string& path) {
  std::string text;
  for (const auto& [name, value] : machine_facts(path)) {
    text += (text.empty() ? "" : "; ") + value;
  }
  return text;
}

}  // namespace ringload::bench
