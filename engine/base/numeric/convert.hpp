// SPDX-License-Identifier: Apache-2.0
#pragma once

// Converts elements on the CPU. The GPU kernels produce the same results. The comment of
// fill_options::dtype has the rules: a conversion to a floating-point type rounds once, and a
// conversion to an integer type truncates and saturates.

#include <cstddef>
#include <optional>
#include <ringload/dtype.hpp>

#include "base/numeric/element_kind.hpp"

namespace ringload::inline v0 {

// Returns an empty optional if elements of the type cannot be converted.
std::optional<element_kind> element_kind_of(dtype type) noexcept;
dtype dtype_of(element_kind kind) noexcept;

// Returns true if a load into host memory of the caller can convert `from` to `to`: both types must
// have an element kind, and must differ.
bool fill_converts(dtype from, dtype to) noexcept;

// Returns true if the CUDA kernels can convert `from` to `to`.
bool kernels_convert(dtype from, dtype to) noexcept;

// `units` is the number of elements. For a block kind, `units` is the number of quantised blocks.
// The ranges must not overlap. The addresses may have any alignment.
void convert(const std::byte* from, std::byte* to, std::size_t units, conversion kinds) noexcept;

}  // namespace ringload::inline v0
