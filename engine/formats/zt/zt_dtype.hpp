// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <ringload/dtype.hpp>
#include <string_view>

namespace ringload::inline v0 {

std::optional<ringload::dtype> zt_dtype(std::string_view short_name) noexcept;
std::optional<ringload::dtype> zt_0_1_dtype(std::string_view long_name) noexcept;

// The description of an element type in .zt. `stored` is a dtype of the format. If this dtype does
// not describe the elements completely, `type` is the name of the logical type.
struct zt_element {
  ringload::dtype stored = dtype::u8;
  std::string_view type;  // Empty if `stored` describes the elements completely.
};

// Returns an empty optional for types with fewer than 8 bits, which .zt does not support.
std::optional<zt_element> zt_element_of(ringload::dtype type) noexcept;

// Returns a name such as "bf16". Returns an empty string if .zt does not have the dtype.
std::string_view zt_dtype_name(ringload::dtype stored) noexcept;

// The dtypes of a logical type such as "f8_e5m2": `stored` in the file, and `logical` in ringload.
// zt_logical_type() returns an empty optional for a logical type that ringload does not support.
struct zt_logical {
  ringload::dtype stored;
  ringload::dtype logical;
};
std::optional<zt_logical> zt_logical_type(std::string_view name) noexcept;

}  // namespace ringload::inline v0
