// SPDX-License-Identifier: Apache-2.0
#pragma once

// Finds selected objects that cannot be loaded, for example because their format is not supported.
// Pure functions.

#include <optional>
#include <ringload/catalog.hpp>
#include <ringload/selection.hpp>
#include <string_view>

#include "base/fault.hpp"

namespace ringload::inline v0 {

fault fault_of(const unreadable_info& object);

// Returns the unreadable object with the name `name`, or the unreadable object that has a part with
// this name. Returns null if no unreadable object matches.
const unreadable_info* unreadable_named(const catalog& from, std::string_view name) noexcept;

// Returns an error if the selection contains an unreadable object. Ignores objects that selections
// may omit (unreadable_info::is_left_out). The function does not check the names in the selection,
// because selection_context::find() checks these names.
std::optional<fault> unreadable_chosen(const catalog& from, const detail::requests& requests);

}  // namespace ringload::inline v0
