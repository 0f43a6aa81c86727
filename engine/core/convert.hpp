// SPDX-License-Identifier: Apache-2.0
#pragma once

// Copies elements and converts them on the CPU; the kernels of a GPU do the same.

#include <cstddef>
#include <optional>
#include <ringload/dtype.hpp>

#include "core/float_bits.hpp"

namespace ringload::inline v0 {

// Empty for types that are not converted.
std::optional<float_type> float_type_of(dtype type) noexcept;
dtype dtype_of(float_type type) noexcept;

// The ranges must not overlap. Neither need be aligned.
void convert(const std::byte* from, std::byte* to, std::size_t elements, conversion how) noexcept;

}  // namespace ringload::inline v0
