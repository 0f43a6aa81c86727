// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <ringload/dtype.hpp>
#include <string_view>

namespace ringload::inline v0 {

std::optional<ringload::dtype> zt_dtype(std::string_view short_name) noexcept;
std::optional<ringload::dtype> zt_0_1_dtype(std::string_view long_name) noexcept;

// The names of an element type in .zt. `stored` is one of the dtypes of the format. If the dtype
// does not describe the type fully, `type` is the logical type.
struct zt_element {
  ringload::dtype stored = dtype::u8;
  std::string_view type;  // The logical type. Empty if it is the same as `stored`.
};

// Returns an empty optional for types with fewer than 8 bits, which .zt does not support.
std::optional<zt_element> zt_element_of(ringload::dtype type) noexcept;

// Returns a name such as "bf16". Returns an empty string if zt_element::stored never has this type.
std::string_view zt_dtype_name(ringload::dtype stored) noexcept;

// The type of a logical type such as "f8_e5m2". `stored` is the dtype that its elements must have.
// Logical types of other programs are unknown.
struct zt_logical {
  ringload::dtype stored;
  ringload::dtype logical;
};
std::optional<zt_logical> zt_logical_type(std::string_view name) noexcept;

}  // namespace ringload::inline v0
