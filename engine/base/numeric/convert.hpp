// SPDX-License-Identifier: Apache-2.0
#pragma once

// Copies and converts elements on the CPU, with the same results as the GPU kernels. Rules of
// fill_options::dtype: a floating-point target is rounded once; an integer target is truncated and
// saturated.

#include <cstddef>
#include <optional>
#include <ringload/dtype.hpp>

#include "base/numeric/element_kind.hpp"

namespace ringload::inline v0 {

// Returns no kind for types that cannot be converted.
std::optional<element_kind> element_kind_of(dtype type) noexcept;
dtype dtype_of(element_kind kind) noexcept;

// Returns true if a fill converts elements of one type to the other in host memory: all pairs of
// element kinds.
bool fill_converts(dtype from, dtype to) noexcept;

// Returns true if the CUDA kernels convert elements of one type to the other.
bool kernels_convert(dtype from, dtype to) noexcept;

// `elements` counts units: quantised blocks if those are converted. The ranges must not overlap and
// need not be aligned.
void convert(const std::byte* from, std::byte* to, std::size_t elements, conversion kinds) noexcept;

}  // namespace ringload::inline v0
