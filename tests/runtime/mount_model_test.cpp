// SPDX-License-Identifier: Apache-2.0

// The advice for simulated mounts. Time is a number: no test waits.

#include "runtime/mount_model.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <queue>
#include <random>
#include <vector>

using ringload::detail::mount_model;

namespace {

constexpr std::uint64_t mib = 1 << 20;
constexpr std::uint64_t read_bytes = 4 * mib;

// A mount that carries one read after the other, each with a latency of its own beside.
struct link {
  double latency;
  double bandwidth;        // Bytes per second.
  double stalled = 0;      // Part of the reads that take half a second longer.
  bool is_shared = false;  // All reads in flight progress at the same time.
};

struct in_flight_read {
  double end;
  double begin;
  bool operator>(const in_flight_read& other) const { return end > other.end; }
};

// Keeps the limit's bytes in flight during `total` bytes, follows the model, and returns the last
// limit.
std::uint64_t run(const link& mount, std::uint64_t total) {
  constexpr std::uint64_t limit_max = 256 * mib;
  mount_model model;
  std::mt19937 random(1);
  std::uniform_real_distribution<> chance(0, 1);
  std::priority_queue<in_flight_read, std::vector<in_flight_read>, std::greater<>> reads;
  std::uint64_t limit = 32 * mib;
  double now = 0;
  double link_free = 0;
  for (std::uint64_t done = 0; done < total; done += read_bytes) {
    while ((reads.size() + 1) * read_bytes <= limit) {
      const double seconds = double(read_bytes) / mount.bandwidth;
      double end = std::max(now + mount.latency, link_free) + seconds;
      link_free = end;
      if (mount.is_shared) end = now + mount.latency + double(limit) / mount.bandwidth;
      if (chance(random) < mount.stalled) end += 0.5;
      reads.push({end, now});
    }
    const in_flight_read ended = reads.top();
    reads.pop();
    now = std::max(now, ended.end);
    const std::chrono::nanoseconds time(std::int64_t((now - ended.begin) * 1e9));
    if (model.completed(read_bytes, time, limit, true)) limit = std::min(limit_max, 2 * limit);
  }
  return limit;
}

}  // namespace

TEST_CASE("mount_model: more bytes in flight after one turnover if latency limits a mount") {
  CHECK(run({0.05, 1e9}, 32 * mib) == 64 * mib);
  // Twice the product of latency and bandwidth is 100 MB.
  CHECK(run({0.05, 1e9}, 1024 * mib) == 128 * mib);
  CHECK(run({0.05, 1e9}, 8192 * mib) == 128 * mib);
  CHECK(run({0.05, 10e9}, 2048 * mib) == 256 * mib);
}

TEST_CASE("mount_model: reads that stall hide no latency") {
  for (const double stalled : {0.01, 0.04, 0.1}) {
    CAPTURE(stalled);
    CHECK(run({0.05, 1e9, stalled}, 1024 * mib) >= 128 * mib);
  }
}

TEST_CASE("mount_model: a mount whose bandwidth is used keeps its limit") {
  for (const double latency : {0.0001, 0.001, 0.005}) {
    for (const double bandwidth : {0.1e9, 1e9, 3e9}) {
      if (latency * bandwidth > 8e6) continue;
      CAPTURE(latency);
      CAPTURE(bandwidth);
      CHECK(run({latency, bandwidth}, 8192 * mib) == 32 * mib);
    }
  }
  CHECK(run({0.05, 0.1e9}, 1024 * mib) == 32 * mib);
}

TEST_CASE("mount_model: a drive that carries all reads at once gets at most twice the bytes") {
  CHECK(run({0.0001, 2e9, 0, true}, 8192 * mib) == 64 * mib);
}

TEST_CASE("mount_model: small reads are not compared with large ones") {
  mount_model model;
  bool raised = false;
  for (int i = 0; i < 4000; ++i) {
    const bool is_small = i % 3 == 0;
    const auto time = std::chrono::milliseconds(is_small ? 1 : 30 + i % 7);
    const std::uint64_t bytes = is_small ? 4096 : read_bytes;
    raised = raised || model.completed(bytes, time, 32 * mib, true);
  }
  CHECK(raised);
}

TEST_CASE("mount_model: the limit is raised a few times, even if the caller lowers it again") {
  mount_model model;
  int raises = 0;
  for (int i = 0; i < 100000; ++i) {
    if (model.completed(read_bytes, std::chrono::milliseconds(50), 32 * mib, true)) ++raises;
  }
  CHECK(raises == 8);
}

TEST_CASE("mount_model: reads do not raise a limit that they do not reach") {
  mount_model model;
  for (int i = 0; i < 1000; ++i) {
    CHECK(!model.completed(read_bytes, std::chrono::milliseconds(50), 32 * mib, false));
  }
}
