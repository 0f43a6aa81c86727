// SPDX-License-Identifier: Apache-2.0
#pragma once

// The memory that a run reads into, kept for the next run: populating some GiB takes longer than
// many a run.

#include <cstdint>

#include "base/mapping.hpp"
#include "config.hpp"

namespace ringload::bench {

class room {
 public:
  /// At least `bytes` on such pages, populated unless the destination is `fresh`. Throws
  /// `ringload::error` if there is too little memory, or no such pages.
  mapping& take(std::uint64_t bytes, page_kind pages, destination into);

  void give_back() { kept_ = {}; }

 private:
  mapping kept_;
  page_kind asked_ = page_kind::small;
  bool fresh_ = true;
};

}  // namespace ringload::bench
