// SPDX-License-Identifier: Apache-2.0
#pragma once

// What a tensor is once it has landed, where `load_options::dtype` converts. The catalog says what
// it is in the file.

#include <cstdint>
#include <optional>
#include <ringload/catalog.hpp>
#include <ringload/dtype.hpp>

namespace ringload::tool {

struct loaded_form {
  ringload::dtype dtype;
  std::uint64_t bytes;
};

/// `to` is `load_options::dtype`.
inline loaded_form as_loaded(const tensor_info& in_file, std::optional<dtype> to) {
  if (!to || !convertible(in_file.dtype, *to)) return {in_file.dtype, in_file.bytes};
  // Whole bytes each: nothing narrower can be converted.
  return {*to, in_file.bytes / (bits(in_file.dtype) / 8) * (bits(*to) / 8)};
}

}  // namespace ringload::tool
