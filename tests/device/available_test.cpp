// SPDX-License-Identifier: Apache-2.0

// available_bytes() with simulated folders /proc and /sys.

#include "device/available.hpp"

#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>

#include "support/temporary_folder.hpp"

using namespace ringload;

namespace {

constexpr std::uint64_t gib = std::uint64_t{1} << 30;

class made_system {
 public:
  void put(const std::string& file, const std::string& text) const {
    const auto path = folder_.path() / file;
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path) << text;
  }
  void has(std::uint64_t available) const {
    put("proc/meminfo", "MemTotal: 99 kB\nMemFree:  7 kB\nMemAvailable:   " +
                            std::to_string(available / 1024) + " kB\nCached: 5 kB\n");
  }
  void is_in(const std::string& group) const {
    put("proc/self/cgroup", "4:memory:/of/version/1\n0::" + group + "\n");
  }
  void has_group(const std::string& name, const std::string& most, std::uint64_t taken,
                 std::uint64_t cached = 0) const {
    put("sys/fs/cgroup" + name + "/memory.max", most + "\n");
    put("sys/fs/cgroup" + name + "/memory.current", std::to_string(taken) + "\n");
    put("sys/fs/cgroup" + name + "/memory.stat",
        "anon 1\nfile " + std::to_string(cached) + "\ninactive_file " + std::to_string(cached / 4) +
            "\nactive_file " + std::to_string(cached - cached / 4) + "\n");
  }
  std::optional<std::uint64_t> available() const { return available_bytes(folder_.path()); }

 private:
  ringload::testing::temporary_folder folder_;
};

}  // namespace

TEST_CASE("available: unknown without /proc and /sys") {
  CHECK_FALSE(made_system().available().has_value());
}

TEST_CASE("available: the machine's, without a control group's limit") {
  const made_system one;
  one.has(8 * gib);
  CHECK(one.available() == 8 * gib);
  one.is_in("/a/b");  // The folder of this group is not visible.
  CHECK(one.available() == 8 * gib);
  one.has_group("/a/b", "max", 3 * gib);
  CHECK(one.available() == 8 * gib);
}

TEST_CASE("available: the least that the control group and its ancestors leave") {
  const made_system one;
  one.has(8 * gib);
  one.is_in("/a/b");
  one.has_group("/a/b", std::to_string(4 * gib), gib);
  CHECK(one.available() == 3 * gib);
  one.has_group("/a", std::to_string(6 * gib), 4 * gib);
  CHECK(one.available() == 2 * gib);
  one.has_group("", std::to_string(gib), gib / 2);  // In a container, its own group is the root.
  CHECK(one.available() == gib / 2);
}

TEST_CASE("available: reclaimable page cache counts") {
  const made_system one;
  one.has(8 * gib);
  one.is_in("/");
  one.has_group("", std::to_string(4 * gib), 4 * gib, 3 * gib);
  CHECK(one.available() == 3 * gib);
}

TEST_CASE("available: a control group over its limit leaves nothing") {
  const made_system one;
  one.has(8 * gib);
  one.is_in("/a");
  one.has_group("/a", std::to_string(gib), 2 * gib);
  CHECK(one.available() == 0);
}

TEST_CASE("available: memory.high counts as a limit, with and without memory.max") {
  const made_system one;
  one.has(8 * gib);
  one.is_in("/a");
  one.has_group("/a", "max", gib);
  one.put("sys/fs/cgroup/a/memory.high", std::to_string(3 * gib) + "\n");
  CHECK(one.available() == 2 * gib);
  one.has_group("/a", std::to_string(2 * gib), gib);
  CHECK(one.available() == gib);
  one.put("sys/fs/cgroup/a/memory.high", "max\n");
  CHECK(one.available() == gib);
}

TEST_CASE("available: a control group's limit, where /proc/meminfo says nothing") {
  const made_system one;
  one.is_in("/a");
  one.has_group("/a", std::to_string(2 * gib), gib);
  CHECK(one.available() == gib);
}

TEST_CASE("available: the least that a control group of version 1 and its ancestors leave") {
  const made_system one;
  one.has(8 * gib);
  one.put("proc/self/cgroup", "9:name=systemd:/\n4:cpu,memory:/a/b\n3:memoryless:/c\n0::/\n");
  const auto group = [&](const std::string& name, std::uint64_t most, std::uint64_t taken,
                         std::uint64_t cached) {
    const std::string folder = "sys/fs/cgroup/memory" + name;
    one.put(folder + "/memory.limit_in_bytes", std::to_string(most) + "\n");
    one.put(folder + "/memory.usage_in_bytes", std::to_string(taken) + "\n");
    one.put(folder + "/memory.stat", "cache 1\ninactive_file 1\ntotal_inactive_file " +
                                         std::to_string(cached) + "\ntotal_active_file 0\n");
  };
  group("", 9'223'372'036'854'771'712, 7 * gib, 0);  // No limit.
  CHECK(one.available() == 8 * gib);
  group("/a/b", 4 * gib, 2 * gib, gib);
  CHECK(one.available() == 3 * gib);
  group("/a", 3 * gib, 2 * gib, 0);
  CHECK(one.available() == gib);
}
