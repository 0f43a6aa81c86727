// SPDX-License-Identifier: Apache-2.0
#pragma once

// Defines `ringload_group`, which is opaque to C programs. All components of the C interface that
// make groups include this header.

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
