// SPDX-License-Identifier: Apache-2.0
#pragma once

// Sizes and stored forms of dense tensors.

#include <cstdint>
#include <memory>
#include <optional>
#include <ringload/dtype.hpp>
#include <span>
#include <string>
#include <vector>

#include "formats/catalog_entries.hpp"

namespace ringload::inline v0 {

// The product of the dimensions. Empty if the product of the dimensions that are not 0 does not fit
// in 64 bits. For example, [2^63, 2, 0] is refused: whether a reader overflows on this shape
// depends on the order of its multiplications.
std::optional<std::uint64_t> element_count(std::span<const std::uint64_t> shape) noexcept;

// The form of a row-major tensor whose elements are one whole decoded stream. `element_bytes` is
// the size of one element, or of one unit of the innermost dimension.
std::shared_ptr<const stored_form> one_stream(stored_stream from,
                                              const std::vector<std::uint64_t>& shape,
                                              std::uint64_t element_bytes,
                                              std::uint8_t swap_bytes = 0);

// "[2, 3]", shortened after a few dimensions.
std::string shape_text(std::span<const std::uint64_t> shape);

}  // namespace ringload::inline v0
