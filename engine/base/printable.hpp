// SPDX-License-Identifier: Apache-2.0
#pragma once

// Escapes text from a file for messages, so that an error is one line of bounded length whatever
// the file holds.

#include <cstddef>
#include <ringload/catalog.hpp>
#include <ringload/export.hpp>
#include <string>
#include <string_view>

namespace ringload::inline v0 {

inline constexpr std::size_t printable_bytes_max = 100;

// Control characters, line separators, invisible and direction-changing characters and bytes that
// are not UTF-8 are written as escapes; after about `bytes_max` bytes the rest becomes "...".
RINGLOAD_EXPORT std::string printable(std::string_view text,
                                      std::size_t bytes_max = printable_bytes_max);

// "tensor 'wte.weight'"
std::string tensor_place(std::string_view name);

// "model.safetensors: tensor 'wte.weight'"; without the file where the catalog does not have it.
std::string tensor_place(const catalog& in, const tensor_info& of);

// As printable(), with room for any sensible path: the user must be able to find the file.
RINGLOAD_EXPORT std::string printable_path(std::string_view path);

// Whether `text`, which is UTF-8, holds a control character: C0, DEL or C1.
RINGLOAD_EXPORT bool has_control_character(std::string_view text) noexcept;

}  // namespace ringload::inline v0
