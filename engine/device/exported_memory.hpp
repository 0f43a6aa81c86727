// SPDX-License-Identifier: Apache-2.0
#pragma once

// Device memory that other processes can open. Used to share one copy of a model.

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "base/fault.hpp"
#include "base/unique_fd.hpp"

namespace ringload::inline v0 {

class arena;

struct exported_memory {
  std::string on;  // The UUID of the device, which is the same in all processes.
  std::uint64_t bytes = 0;
  // Keeps the memory alive. The other members are sent to another process as bytes, and the
  // descriptor is sent as a descriptor.
  unique_fd descriptor;
};

// Implemented by backends whose memory other processes can open. The functions are thread-safe, and
// may be called before backend::attach().
class memory_exchange {
 public:
  virtual result<exported_memory> export_memory(const arena& source) = 0;
  virtual result<std::shared_ptr<arena>> import_memory(const exported_memory& exported,
                                                       std::shared_ptr<const void> keeps) = 0;
  // Returns an arena for this device that consists of `bytes`, without a copy. `bytes` must be a
  // part of `memory`, which is in host memory. Returns null if the device cannot use this part, for
  // example because its address is not aligned. The new arena owns `memory`.
  virtual std::shared_ptr<arena> share_host(const std::shared_ptr<arena>& memory,
                                            std::span<std::byte> bytes) noexcept = 0;

 protected:
  ~memory_exchange() = default;
};

}  // namespace ringload::inline v0
