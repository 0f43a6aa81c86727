// SPDX-License-Identifier: Apache-2.0
#pragma once

// Maps the names of classes and functions in PyTorch pickles to roles. No function is called.

#include <cstdint>
#include <optional>
#include <ringload/dtype.hpp>
#include <string>
#include <string_view>

#include "formats/pytorch/pickle.hpp"

namespace ringload::inline v0 {

enum class torch_role : std::uint8_t {
  unknown,
  plain,         // A value without tensors, such as a device.
  container,     // A set or a Counter. The argument is a list or a dictionary.
  dtype,         // For example torch.float32.
  storage,       // For example torch.FloatStorage.
  tensor_class,  // torch.Tensor or Parameter.
  rebuild,       // The arguments are (storage, offset, size, stride, ...).
  // The arguments are (storage, offset, size, stride, requires_grad, hooks, dtype, ...).
  rebuild_typed,
  parameter,  // The arguments are (tensor, ...).
  from_type,  // The arguments are (function, class, arguments, state).
  // The arguments are (tensor, dtype, device, requires_grad).
  device_tensor,
  sparse,  // The arguments are (layout, (indices..., values, size)).
  layout,  // The arguments are ("torch.sparse_coo").
  size,    // The arguments are ((2, 3)).
  // A call creates a tensor of an unsupported kind. Without a call, the name is a value that
  // contains no tensor.
  unsupported,
};

torch_role role_of(const pickle_global& global) noexcept;

// Returns the kind of a tensor with the role `unsupported`, such as "a quantised tensor".
std::string_view kind_of_unsupported(const pickle_global& global) noexcept;

struct torch_element {
  std::uint8_t bytes = 1;
  // Empty for torch.UntypedStorage, and for a type that ringload does not support.
  std::optional<ringload::dtype> dtype = std::nullopt;
  bool is_untyped_storage = false;
  bool is_f4_pair = false;  // True if each byte contains two elements of dtype f4.
};

// Returns the element type of a storage class or of a dtype. Returns an empty optional for any
// other name.
std::optional<torch_element> element_of(const pickle_global& global) noexcept;

// Returns a name such as "torch.FloatStorage".
std::string full_name(const pickle_global& global);

}  // namespace ringload::inline v0
