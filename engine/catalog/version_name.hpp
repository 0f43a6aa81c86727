// SPDX-License-Identifier: Apache-2.0
#pragma once

// The names of versions in a version folder: "v0.safetensors", "v1.delta.zt", "weight_v000001".
// Pure functions.

#include <cstdint>
#include <optional>
#include <string_view>

namespace ringload::inline v0 {

inline constexpr std::string_view delta_ending = ".delta.zt";

// Returns the version number if the name consists of "v", the number and the ending. A number with
// leading zeros is invalid, so that each version has only one name.
std::optional<std::uint64_t> version_named(std::string_view name, std::string_view ending);

// Returns the version number of a folder such as "weight_v000007". The number has six digits, or
// more than six digits without leading zeros.
std::optional<std::uint64_t> weight_version_named(std::string_view name);

}  // namespace ringload::inline v0
