// SPDX-License-Identifier: Apache-2.0
#pragma once

// Registers the host memory of a model with the CUDA driver, so that all devices can copy from the
// memory by DMA. The memory stays registered until the memory is unmapped. Used by ringload::pin(),
// and by integrated GPUs that use host memory without a copy.

#include <boost/system/error_code.hpp>
#include <cstddef>
#include <memory>
#include <span>

#include "base/fault.hpp"
#include "base/mapping.hpp"
#include "device/cuda/device_memory.hpp"

namespace ringload::inline v0::cuda {

class host_registration final : public memory_registration {
 public:
  // Registers the memory in chunks. If a chunk cannot be registered, unregisters the earlier
  // chunks. The device must be the current device. `is_read_only` must be true if the mapping is
  // read-only. Throws std::bad_alloc.
  static result<std::unique_ptr<host_registration>> make(int device, std::span<std::byte> memory,
                                                         bool is_read_only);

  bool covers(std::span<const std::byte> range) const noexcept override;
  void end(std::span<std::byte> memory) noexcept override;

 private:
  explicit host_registration(std::unique_ptr<taken_memory> memory) noexcept
      : memory_(std::move(memory)) {}

  // The object that end() adds to the queue of the freeing threads. make() allocates the object,
  // because end() must not fail.
  std::unique_ptr<taken_memory> memory_;
};

// Registers the memory of a mapping. Does nothing if the memory is already registered. The device
// must be the current device. Thread-safe. Throws std::bad_alloc.
result<const memory_registration*> register_mapping(int device, mapping& memory, bool is_read_only);

}  // namespace ringload::inline v0::cuda
