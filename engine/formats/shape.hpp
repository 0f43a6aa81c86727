// SPDX-License-Identifier: Apache-2.0
#pragma once

// Sizes and forms of dense tensors, as most formats need them.

#include <cstdint>
#include <memory>
#include <optional>
#include <ringload/dtype.hpp>
#include <span>
#include <string>
#include <vector>

#include "formats/catalog_entries.hpp"

namespace ringload::inline v0 {

// The product of the dimensions; empty where it, or the product of those that are not 0, does not
// fit in 64 bits. So [2^63, 2, 0] has no number of elements: which readers survive it depends on
// the order they multiply in.
std::optional<std::uint64_t> element_count(std::span<const std::uint64_t> shape) noexcept;

// A tensor that is one stream, row-major, decoded from its first byte to its last.
// `element_bytes` are those of one element, or of one unit of the innermost dimension.
std::shared_ptr<const stored_form> one_stream(stored_stream from,
                                              const std::vector<std::uint64_t>& shape,
                                              std::uint64_t element_bytes,
                                              std::uint8_t swap_bytes = 0);

// "[2, 3]", shortened after a few dimensions.
std::string shape_text(std::span<const std::uint64_t> shape);

}  // namespace ringload::inline v0
