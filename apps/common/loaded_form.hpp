// SPDX-License-Identifier: Apache-2.0
#pragma once

// The type and size of a tensor after the conversion by `load_options::dtype`; the catalog has the
// file's.

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
  // Only types of whole bytes are converted.
  return {*to, in_file.bytes / (bits(in_file.dtype) / 8) * (bits(*to) / 8)};
}

}  // namespace ringload::tool
