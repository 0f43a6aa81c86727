// SPDX-License-Identifier: Apache-2.0
#pragma once

// Defines the handle of a group, which is opaque to C programs, for all components.

#include <ringload/c_ranks.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <ringload/group.hpp>

struct ringload_group {
  std::shared_ptr<ringload::group> value;
};

namespace ringload::c {

inline std::chrono::milliseconds group_timeout_of(std::uint32_t milliseconds) {
  if (milliseconds == 0) return ringload::rank_timeout;
  return std::chrono::milliseconds(milliseconds);
}

}  // namespace ringload::c
