// SPDX-License-Identifier: Apache-2.0
#pragma once

// Builds a tensor from the parts that several ranks (processes or threads) send.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <ringload/catalog.hpp>
#include <ringload/device.hpp>
#include <ringload/tensor.hpp>
#include <span>
#include <utility>

#include "device/backend.hpp"

namespace ringload::inline v0::detail {

// The alignment of tensors whose bytes other ranks send. A device may need a larger alignment.
inline constexpr std::uint32_t gathered_alignment = 64;

// Both functions throw the errors of the backend. allocate_one() allocates at least one byte, with
// an alignment of at least gathered_alignment.
std::shared_ptr<arena> allocate_one(backend& memory, std::uint64_t bytes);
void copy_rows_in(backend& memory, std::span<const row_copy> copies);

class tensor_builder {
 public:
  // Allocates the memory. `info.bytes` must match the dtype and the shape. `memory` must be the
  // backend of the device `on`. Throws the errors of the backend.
  tensor_builder(tensor_info info, device on, backend& memory)
      : info_(std::move(info)), on_(on), memory_(allocate_one(memory, info_.bytes)) {}

  const tensor_info& info() const noexcept { return info_; }
  std::span<std::byte> bytes() const noexcept {
    return {memory_->data(), static_cast<std::size_t>(info_.bytes)};
  }

  // Returns the tensor. The caller must have written bytes() before.
  tensor finish() &&;

 private:
  tensor_info info_;
  device on_;
  std::shared_ptr<arena> memory_;
};

}  // namespace ringload::inline v0::detail
