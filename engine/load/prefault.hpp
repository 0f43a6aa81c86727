// SPDX-License-Identifier: Apache-2.0
#pragma once

// Populates host memory (makes its pages present) in the copy threads before reads write to the
// memory. Otherwise page faults would occur in the engine thread while the drive waits.

#include <boost/system/error_code.hpp>
#include <cstddef>
#include <span>

#include "base/mapping.hpp"

namespace ringload::inline v0::detail {

class engine;
class job;

struct populate_task {
  std::span<std::byte> memory;
  boost::system::error_code failed;
  void operator()() noexcept { failed = populate(memory); }
};

// Starts a coroutine that populates all arenas of the load. Does nothing at a second call for the
// same load.
void begin_prefault(engine& e, job& load);

}  // namespace ringload::inline v0::detail
