// SPDX-License-Identifier: Apache-2.0
#pragma once

// Text from a file, made fit for a message: whatever a file calls its tensors, an error stays one
// clean line of bounded length.

#include <cstddef>
#include <string>
#include <string_view>

namespace ringload::inline v0 {

inline constexpr std::size_t printable_bytes_max = 100;

// Control characters, line separators, invisible and direction-changing characters and bytes that
// are not UTF-8 are written as escapes; after about `bytes_max` bytes the rest becomes "...".
std::string printable(std::string_view text, std::size_t bytes_max = printable_bytes_max);

// "tensor 'wte.weight'"
std::string tensor_place(std::string_view name);

// A path is shown whole as long as a path can sensibly be: it is what the user must find.
std::string printable_path(std::string_view path);

// Whether `text`, which is UTF-8, holds a control character: C0, DEL or C1.
bool has_control_character(std::string_view text) noexcept;

}  // namespace ringload::inline v0
