// SPDX-License-Identifier: Apache-2.0
#pragma once

// Slots so small that a file of some hundred KiB takes several reads.

#include <ringload/options.hpp>

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
  return within;
}

inline load_options by(read_route route) {
  load_options options;
  options.route = route;
  return options;
}

}  // namespace ringload::testing
