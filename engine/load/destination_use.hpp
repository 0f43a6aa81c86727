// SPDX-License-Identifier: Apache-2.0
#pragma once

// RAII guard: declares that a read, a copy or a decoder uses the destinations of a load. Engine
// thread only.

#include "load/job.hpp"

namespace ringload::inline v0::detail {

class destination_use {
 public:
  explicit destination_use(job& load) noexcept : load_(load) { load_.begin_use_of_destinations(); }
  destination_use(const destination_use&) = delete;
  destination_use& operator=(const destination_use&) = delete;
  ~destination_use() { load_.end_use_of_destinations(); }

 private:
  job& load_;
};

}  // namespace ringload::inline v0::detail
