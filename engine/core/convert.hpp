// SPDX-License-Identifier: Apache-2.0
#pragma once

// A copy that converts, by the processor: what the host does with a slot, where another device has
// a kernel.

#include <cstddef>
#include <optional>
#include <ringload/dtype.hpp>

#include "core/float_bits.hpp"

namespace ringload::inline v0 {

// The floating types that take part; empty for all others.
std::optional<float_type> float_type_of(dtype type) noexcept;
dtype dtype_of(float_type type) noexcept;

// From one place to another that it does not overlap. Neither need be aligned.
void convert(const std::byte* from, std::byte* to, std::size_t elements, conversion how) noexcept;

}  // namespace ringload::inline v0
