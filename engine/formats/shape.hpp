// SPDX-License-Identifier: Apache-2.0
#pragma once

// Sizes and stored forms of tensors with contiguous elements.

#include <cstdint>
#include <memory>
#include <optional>
#include <ringload/dtype.hpp>
#include <span>
#include <string>
#include <vector>

#include "formats/catalog_entries.hpp"

namespace ringload::inline v0 {

// Returns the product of the dimensions. Returns an empty optional if the product of the dimensions
// other than 0 does not fit in 64 bits. For example, [2^63, 2, 0] is refused, because some readers
// multiply its dimensions in an order that overflows.
std::optional<std::uint64_t> element_count(std::span<const std::uint64_t> shape) noexcept;

// Returns the form of a row-major tensor whose elements are exactly the bytes of one decoded
// stream. `element_bytes` is the size of one element of `shape`.
std::shared_ptr<const stored_form> one_stream(stored_stream stream,
                                              const std::vector<std::uint64_t>& shape,
                                              std::uint64_t element_bytes,
                                              std::uint8_t swap_bytes = 0);

// Returns a text such as "[2, 3]". Shows at most the first 8 dimensions.
std::string shape_text(std::span<const std::uint64_t> shape);

}  // namespace ringload::inline v0
