// SPDX-License-Identifier: Apache-2.0

// Chooses the settings of a world.

#include "workload.hpp"

#include <algorithm>

namespace ringload::simulation {

namespace {

// Random numbers that depend only on the seed of a world.
class draws {
 public:
  explicit draws(std::uint64_t state) : state_(state) {}

  std::uint64_t operator()(std::uint64_t limit) {
    state_ = state_ * 6364136223846793005ULL + 1442695040888963407ULL;
    return (state_ >> 33) % limit;
  }

 private:
  std::uint64_t state_;
};

world_settings usual_settings(std::uint64_t seed) {
  draws draw(seed);
  for (int i = 0; i < 4; ++i) draw(2);
  world_settings chosen;
  chosen.seed = seed;
  chosen.switch_percent = static_cast<unsigned>(5 + draw(95));
  chosen.latency_max = std::int64_t{1000} << draw(12);
  chosen.refuses_ring = draw(8) == 0;
  chosen.refuses_deferred = draw(3) == 0;
  chosen.processors = static_cast<unsigned>(1 + draw(4));
  chosen.slots = static_cast<unsigned>(1 + draw(5));
  chosen.bytes_in_flight = draw(2) == 0 ? 0 : slot_bytes * (1 + draw(chosen.slots));
  // In a sixth of the worlds memory runs out. A third of the worlds have no faults: every operation
  // must succeed there.
  const auto rate = [&](unsigned most) {
    return static_cast<unsigned>(draw(3) == 0 ? draw(most) : 0);
  };
  chosen.power_cuts = draw(4) == 0;
  const unsigned kind = static_cast<unsigned>(draw(6));
  if (kind == 0) chosen.faults.allocation = static_cast<unsigned>(1 + draw(60));
  chosen.has_server = kind != 0 && draw(3) == 0;
  // A third of the servers make no fault.
  if (chosen.has_server && draw(3) > 0) {
    chosen.mild_server = kind < 3 || draw(2) == 0;
    chosen.faults.server = static_cast<unsigned>(1 + draw(2000));
  }
  if (kind < 3) return chosen;
  chosen.faults.read_error = rate(300);
  chosen.faults.short_read = rate(3000);
  chosen.faults.interrupted = rate(1000);
  chosen.faults.write_error = rate(500);
  chosen.faults.submission = rate(8000);
  chosen.faults.thread_refused = rate(200);
  if (chosen.has_server) chosen.faults.socket_refused = rate(300);
  // A failed flush matters only if the power is cut later.
  if (chosen.power_cuts && chosen.faults.write_error == 0) {
    chosen.faults.write_error = static_cast<unsigned>(draw(500));
  }
  return chosen;
}

// A quarter of the worlds have GPUs. Their calls fail only in worlds with faults of the drive, too.
void choose_devices(world_settings& chosen) {
  draws draw(chosen.seed * 0x9E3779B97F4A7C15ULL + 1);
  for (int i = 0; i < 4; ++i) draw(2);
  if (draw(4) != 0) return;
  chosen.devices = static_cast<unsigned>(1 + draw(3));
  if (!chosen.faults.any() || chosen.faults.allocation != 0) return;
  chosen.faults.device_call = static_cast<unsigned>(draw(2) == 0 ? 0 : draw(200));
  chosen.breaks_devices = draw(8) == 0;
}

// A quarter of the worlds have a keeper.
void choose_keeper(world_settings& chosen) {
  // Mixed, so that the choice does not depend on the choice of devices.
  const std::uint64_t state = (chosen.seed ^ (chosen.seed >> 30)) * 0xBF58476D1CE4E5B9ULL + 2;
  draws draw((state ^ (state >> 27)) * 0x94D049BB133111EBULL);
  chosen.has_keeper = draw(4) == 0;
  const bool has_faults = chosen.faults.any() && chosen.faults.allocation == 0;
  if (!chosen.has_keeper || !has_faults || draw(2) == 0) return;
  chosen.faults.socket_refused = static_cast<unsigned>(1 + draw(500));
}

struct part {
  const char* name;
  void (*remove)(world_settings&);
};

constexpr part parts[] = {
    {"allocation", [](world_settings& all) { all.faults.allocation = 0; }},
    {"read_error", [](world_settings& all) { all.faults.read_error = 0; }},
    {"short_read", [](world_settings& all) { all.faults.short_read = 0; }},
    {"interrupted", [](world_settings& all) { all.faults.interrupted = 0; }},
    {"write_error", [](world_settings& all) { all.faults.write_error = 0; }},
    {"submission", [](world_settings& all) { all.faults.submission = 0; }},
    {"thread_refused", [](world_settings& all) { all.faults.thread_refused = 0; }},
    {"socket_refused", [](world_settings& all) { all.faults.socket_refused = 0; }},
    {"server_faults", [](world_settings& all) { all.faults.server = 0; }},
    {"device_call", [](world_settings& all) { all.faults.device_call = 0; }},
    {"broken_devices", [](world_settings& all) { all.breaks_devices = false; }},
    {"power_cuts", [](world_settings& all) { all.power_cuts = false; }},
    {"server", [](world_settings& all) { all.has_server = false; }},
    {"keeper", [](world_settings& all) { all.has_keeper = false; }},
    {"devices",
     [](world_settings& all) {
       all.devices = 0;
       all.breaks_devices = false;
     }},
    {"ring", [](world_settings& all) { all.refuses_ring = true; }},
    {"second_slot", [](world_settings& all) { all.slots = 1; }},
    {"second_loop", [](world_settings& all) { all.loops_max = 1; }},
    {"second_loader", [](world_settings& all) { all.loaders_max = 1; }},
    {"fourth_client", [](world_settings& all) { all.clients_max = 3; }},
    {"third_client", [](world_settings& all) { all.clients_max = 2; }},
    {"second_client", [](world_settings& all) { all.clients_max = 1; }},
    {"fifth_operation", [](world_settings& all) { all.operations_max = 4; }},
    {"third_operation", [](world_settings& all) { all.operations_max = 2; }},
    {"second_operation", [](world_settings& all) { all.operations_max = 1; }},
};

}  // namespace

world_settings settings_of(std::uint64_t seed, std::span<const std::string> removed_parts) {
  world_settings chosen = usual_settings(seed);
  choose_devices(chosen);
  choose_keeper(chosen);
  for (const part& each : parts) {
    if (std::ranges::count(removed_parts, each.name) != 0) each.remove(chosen);
  }
  return chosen;
}

std::vector<std::string> removable_parts() {
  std::vector<std::string> names;
  for (const part& each : parts) names.emplace_back(each.name);
  return names;
}

}  // namespace ringload::simulation
