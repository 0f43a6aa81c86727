// SPDX-License-Identifier: Apache-2.0
#pragma once

// A tensor that is put together in memory of the host, and then given away.

#include <cstddef>
#include <memory>
#include <ringload/catalog.hpp>
#include <ringload/tensor.hpp>
#include <span>

#include "core/fault.hpp"
#include "device/backend.hpp"

namespace ringload::inline v0::detail {

class new_tensor {
 public:
  // `what` says how it lands; its `bytes` are those of its type and shape.
  static result<new_tensor> make(tensor_info what, backend& in);

  const tensor_info& info() const noexcept { return info_; }
  std::span<std::byte> bytes() const noexcept {
    return {memory_->data(), static_cast<std::size_t>(info_.bytes)};
  }

  tensor finish() &&;

 private:
  new_tensor(tensor_info what, std::shared_ptr<arena> memory) noexcept
      : info_(std::move(what)), memory_(std::move(memory)) {}

  tensor_info info_;
  std::shared_ptr<arena> memory_;
};

}  // namespace ringload::inline v0::detail
