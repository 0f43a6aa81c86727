// SPDX-License-Identifier: Apache-2.0
#pragma once

// A range [begin, end) of indices or bytes.

#include <cstdint>

namespace ringload::inline v0 {

struct range {
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
  std::uint64_t count() const noexcept { return end - begin; }
  friend bool operator==(const range&, const range&) = default;
};

}  // namespace ringload::inline v0
