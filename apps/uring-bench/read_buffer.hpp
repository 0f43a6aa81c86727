// SPDX-License-Identifier: Apache-2.0
#pragma once

// The destination memory of a run. Kept for the next run, because populating some GiB takes longer
// than many runs.

#include <cstdint>

#include "base/mapping.hpp"
#include "config.hpp"

namespace ringload::bench {

class read_buffer {
 public:
  /// Returns at least `bytes` bytes on pages of this kind, populated unless the destination is
  /// `fresh`. Throws `ringload::error` if too little memory or no such pages are available.
  mapping& take(std::uint64_t bytes, page_kind pages, destination into);

  void give_back() { kept_ = {}; }

 private:
  mapping kept_;
  page_kind asked_ = page_kind::small;
  bool fresh_ = true;
};

}  // namespace ringload::bench
