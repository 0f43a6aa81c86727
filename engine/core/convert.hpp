// SPDX-License-Identifier: Apache-2.0
#pragma once

// Copies elements and converts them on the CPU; the kernels of a GPU do the same. The rules are
// those of fill_policies::dtype: to a floating-point type rounded once, to an integer truncated and
// saturated.

#include <cstddef>
#include <optional>
#include <ringload/dtype.hpp>

#include "core/element_kind.hpp"

namespace ringload::inline v0 {

// Empty for types that are not converted.
std::optional<element_kind> element_kind_of(dtype type) noexcept;
dtype dtype_of(element_kind kind) noexcept;

// Whether a fill converts elements of the one type to the other in host memory: all pairs of
// element kinds.
bool fill_converts(dtype from, dtype to) noexcept;

// Whether the kernels of CUDA convert elements of the one type to the other.
bool kernels_convert(dtype from, dtype to) noexcept;

// `elements` is of units: of blocks, where these are converted. The ranges must not overlap.
// Neither need be aligned.
void convert(const std::byte* from, std::byte* to, std::size_t elements, conversion how) noexcept;

}  // namespace ringload::inline v0
