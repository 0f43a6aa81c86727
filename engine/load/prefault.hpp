// SPDX-License-Identifier: Apache-2.0
#pragma once

// Populates host memory in the copy threads before reads write to it: a drive must not wait for
// page faults, and they would be handled in the engine thread.

#include <boost/system/error_code.hpp>
#include <cstddef>
#include <span>

#include "base/mapping.hpp"

namespace ringload::inline v0::detail {

class engine;
class job;

// For on_thread().
struct populate_task {
  std::span<std::byte> memory;
  boost::system::error_code failed;
  void operator()() noexcept { failed = populate(memory); }
};

// Begins to populate the load's whole arena, ahead of the reads. Only the first call for a load
// does.
void begin_prefault(engine& e, job& of);

}  // namespace ringload::inline v0::detail
