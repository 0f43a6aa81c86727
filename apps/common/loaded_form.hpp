// SPDX-License-Identifier: Apache-2.0
#pragma once

// The type, the shape and the size that a tensor has after a load. They differ from the values in
// the catalog if `load_options::dtype` converts the tensor.

#include <cstdint>
#include <optional>
#include <ringload/catalog.hpp>
#include <ringload/dtype.hpp>
#include <span>

namespace ringload::tool {

struct loaded_form {
  ringload::dtype dtype;
  std::span<const std::uint64_t> shape;  // Valid as long as the `tensor_info`.
  std::uint64_t bytes;
};

/// Returns the form of a tensor after a load that succeeds. `to` is the value of
/// `load_options::dtype`, for all tensors.
inline loaded_form as_loaded(const tensor_info& in_file, std::optional<dtype> to) {
  // A load with a dtype dequantises these tensors, or fails.
  if (to && !in_file.type.empty() && !in_file.original_shape.empty()) {
    std::uint64_t bytes = bits(*to) / 8;
    for (const std::uint64_t size : in_file.original_shape) bytes *= size;
    return {*to, in_file.original_shape, bytes};
  }
  if (!to || !convertible(in_file.dtype, *to)) return {in_file.dtype, in_file.shape, in_file.bytes};
  // All types that can be converted have elements of whole bytes.
  return {*to, in_file.shape, in_file.bytes / (bits(in_file.dtype) / 8) * (bits(*to) / 8)};
}

}  // namespace ringload::tool
