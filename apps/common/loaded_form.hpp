// SPDX-License-Identifier: Apache-2.0
#pragma once

// The type and the size that a tensor has after a load. Both differ from the values in the catalog
// if `load_options::dtype` converts the tensor.

#include <cstdint>
#include <optional>
#include <ringload/catalog.hpp>
#include <ringload/dtype.hpp>

namespace ringload::tool {

struct loaded_form {
  ringload::dtype dtype;
  std::uint64_t bytes;
};

/// Returns the form of a tensor after a load. `to` is the value of `load_options::dtype`.
inline loaded_form as_loaded(const tensor_info& in_file, std::optional<dtype> to) {
  if (!to || !convertible(in_file.dtype, *to)) return {in_file.dtype, in_file.bytes};
  // All types that can be converted have elements of whole bytes.
  return {*to, in_file.bytes / (bits(in_file.dtype) / 8) * (bits(*to) / 8)};
}

}  // namespace ringload::tool
