// SPDX-License-Identifier: Apache-2.0
#pragma once

// Populates host memory in the copy threads before reads write to the memory. Otherwise a drive
// would wait for page faults, and the engine thread would handle them.

#include <boost/system/error_code.hpp>
#include <cstddef>
#include <span>

#include "base/mapping.hpp"

namespace ringload::inline v0::detail {

class engine;
class job;

// A task for on_thread().
struct populate_task {
  std::span<std::byte> memory;
  boost::system::error_code failed;
  void operator()() noexcept { failed = populate(memory); }
};

// Starts to populate all arenas of the load, ahead of the reads. Later calls for the same load do
// nothing.
void begin_prefault(engine& e, job& load);

}  // namespace ringload::inline v0::detail
