// SPDX-License-Identifier: Apache-2.0
#pragma once

// Device memory that other processes on the machine can open.

#include <cstdint>
#include <memory>
#include <string>

#include "base/fault.hpp"

namespace ringload::inline v0 {

class arena;

struct exported_memory {
  std::string on;      // A name of the device that is the same in all processes.
  std::string handle;  // The driver's handle.
  std::uint64_t bytes = 0;
};

// Implemented by backends whose memory other processes can open. Thread-safe; does not need
// attach().
class memory_exchange {
 public:
  // Valid while the arena exists.
  virtual result<exported_memory> export_memory(const arena& source) = 0;
  // `keeps` is released when the memory is closed.
  virtual result<std::shared_ptr<arena>> import_memory(const exported_memory& exported,
                                                       std::shared_ptr<const void> keeps) = 0;

 protected:
  ~memory_exchange() = default;
};

}  // namespace ringload::inline v0
