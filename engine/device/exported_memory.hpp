// SPDX-License-Identifier: Apache-2.0
#pragma once

// Memory of a device that other processes of the machine can open.

#include <cstdint>
#include <memory>
#include <string>

#include "core/fault.hpp"

namespace ringload::inline v0 {

class arena;

struct exported_memory {
  std::string on;      // The device, by a name that is the same in all processes.
  std::string handle;  // The driver's.
  std::uint64_t bytes = 0;
};

// What a backend whose memory can be opened is besides. Any thread, and no attach is needed.
class memory_exchange {
 public:
  // For as long as the arena lives.
  virtual result<exported_memory> export_memory(const arena& of) = 0;
  // `keeps` is let go of when the memory is closed.
  virtual result<std::shared_ptr<arena>> import_memory(const exported_memory& what,
                                                       std::shared_ptr<const void> keeps) = 0;

 protected:
  ~memory_exchange() = default;
};

}  // namespace ringload::inline v0
