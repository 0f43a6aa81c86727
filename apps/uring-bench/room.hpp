// SPDX-License-Identifier: Apache-2.0
#pragma once

// The memory that a run reads into. Populating some GiB takes longer than many a run, so what the
// next run can use is kept.

#include <cstdint>

#include "cell.hpp"
#include "core/mapping.hpp"

namespace ringload::bench {

class room {
 public:
  /// At least `bytes` on such pages, present if the destination is not `fresh`. Throws
  /// `ringload::error` where there is less memory, or no such pages.
  mapping& take(std::uint64_t bytes, page_kind pages, destination into);

  void give_back() { kept_ = {}; }

 private:
  mapping kept_;
  page_kind asked_ = page_kind::small;
  bool fresh_ = true;
};

}  // namespace ringload::bench
