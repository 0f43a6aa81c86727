// SPDX-License-Identifier: Apache-2.0
#pragma once

// Escapes text from a file for error messages. An error message is therefore one line of bounded
// length, even if the file contains control characters or a very long name.

#include <cstddef>
#include <ringload/catalog.hpp>
#include <ringload/export.hpp>
#include <string>
#include <string_view>

namespace ringload::inline v0 {

inline constexpr std::size_t printable_bytes_max = 100;

// Returns `text` with escapes for control characters, line separators, invisible characters,
// characters that change the reading direction, and bytes that are not UTF-8. If the result would
// have more than about `bytes_max` bytes, the result ends with "...".
RINGLOAD_EXPORT std::string printable(std::string_view text,
                                      std::size_t bytes_max = printable_bytes_max);

// Returns a place for an error: "tensor 'wte.weight'".
std::string tensor_place(std::string_view name);

// Returns a place with the file: "model.safetensors: tensor 'wte.weight'". If the catalog does not
// list the file of the tensor, the place has only the tensor.
std::string tensor_place(const catalog& checkpoint, const tensor_info& tensor);

// Like printable(), but with a limit of 1,024 bytes, because the user needs the path to find the
// file.
RINGLOAD_EXPORT std::string printable_path(std::string_view path);

// Returns true if the UTF-8 text contains a control character: C0, DEL or C1.
RINGLOAD_EXPORT bool has_control_character(std::string_view text) noexcept;

}  // namespace ringload::inline v0
