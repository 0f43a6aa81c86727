// SPDX-License-Identifier: Apache-2.0
#pragma once

// Small slots, so that a file of some hundred KiB needs several reads.

#include <chrono>
#include <ringload/fill.hpp>
#include <ringload/options.hpp>
#include <ringload/selection.hpp>
#include <utility>

namespace ringload::testing {

inline constexpr std::uint64_t small_slot = 64 * 1024;

inline loader_options small_options(std::uint32_t slots = 4,
                                    read_engine engine = read_engine::automatic) {
  loader_options within;
  within.slots = slots;
  within.slot_bytes = small_slot;
  within.copy_threads = 1;
  within.reader_threads = 2;
  within.engine = engine;
  // So that a held read delays the end of its load on a busy machine too.
  within.stop_time_max = std::chrono::hours(1);
  return within;
}

inline load_options by(read_route route) {
  load_options options;
  options.route = route;
  return options;
}

// `options`, with the selection `wanted`.
inline load_options selecting(selection wanted, load_options options = {}) {
  options.select = std::move(wanted);
  return options;
}

// The options of a fill that selects `wanted`.
inline fill_options filling(fill_options rules, load_options load) {
  rules.load = std::move(load);
  return rules;
}

}  // namespace ringload::testing
