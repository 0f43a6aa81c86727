// SPDX-License-Identifier: Apache-2.0
#pragma once

// The classes and functions that PyTorch's pickles name, and their roles. No function is called.

#include <cstdint>
#include <optional>
#include <ringload/dtype.hpp>
#include <string>
#include <string_view>

#include "formats/pytorch/pickle.hpp"

namespace ringload::inline v0 {

enum class torch_role : std::uint8_t {
  unknown,
  plain,          // A value without tensors: a size, a device, a set. Or a container.
  dtype,          // torch.float32
  storage,        // torch.FloatStorage
  tensor_class,   // torch.Tensor, Parameter
  rebuild,        // (storage, offset, size, stride, ...)
  rebuild_typed,  // (storage, offset, size, stride, requires_grad, hooks, dtype, ...)
  parameter,      // (tensor, ...)
  from_type,      // (function, class, arguments, state)
  sparse,         // (layout, (indices..., values, size))
  layout,         // ("torch.sparse_coo")
  size,           // ((2, 3))
  unsupported,    // A tensor of an unsupported kind.
};

torch_role role_of(const pickle_global& global) noexcept;

// The kind of a tensor with the role `unsupported`: "a quantised tensor".
std::string_view kind_of_unsupported(const pickle_global& global) noexcept;

struct torch_element {
  std::uint8_t bytes = 1;
  std::optional<ringload::dtype> dtype =
      std::nullopt;  // Empty: bytes of any type, or no type of ours.
  bool untyped = false;
  bool pairs = false;  // Two elements of dtype f4 in each byte.
};

// The element of a storage class or of a dtype. Empty for other names.
std::optional<torch_element> element_of(const pickle_global& global) noexcept;

// "torch.FloatStorage"
std::string full_name(const pickle_global& global);

}  // namespace ringload::inline v0
