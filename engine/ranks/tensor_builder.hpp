// SPDX-License-Identifier: Apache-2.0
#pragma once

// Builds a tensor in host memory from the parts that several ranks (processes or threads) send.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <ringload/catalog.hpp>
#include <ringload/tensor.hpp>
#include <span>

#include "base/fault.hpp"
#include "device/backend.hpp"

namespace ringload::inline v0::detail {

// The alignment of tensors whose bytes other ranks send.
inline constexpr std::uint32_t gathered_alignment = 64;

class tensor_builder {
 public:
  // Allocates the memory. `info.bytes` must match the dtype and the shape.
  static result<tensor_builder> make(tensor_info info, backend& memory);

  const tensor_info& info() const noexcept { return info_; }
  std::span<std::byte> bytes() const noexcept {
    return {memory_->data(), static_cast<std::size_t>(info_.bytes)};
  }

  tensor finish() &&;

 private:
  tensor_builder(tensor_info info, std::shared_ptr<arena> memory) noexcept
      : info_(std::move(info)), memory_(std::move(memory)) {}

  tensor_info info_;
  std::shared_ptr<arena> memory_;
};

}  // namespace ringload::inline v0::detail
