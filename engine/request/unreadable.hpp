// SPDX-License-Identifier: Apache-2.0
#pragma once

// Finds the objects of a selection that cannot be loaded. Pure.

#include <optional>
#include <ringload/catalog.hpp>
#include <ringload/selection.hpp>
#include <string_view>

#include "base/fault.hpp"

namespace ringload::inline v0 {

fault fault_of(const unreadable_info& object);

// The object with that name, or with a part of that name. Null if no object matches.
const unreadable_info* unreadable_named(const catalog& from, std::string_view name) noexcept;

// Returns a fault if the selection chooses an unreadable object. selection_context::find checks the
// names that a selection lists.
std::optional<fault> unreadable_chosen(const catalog& from, const detail::requests& wanted);

}  // namespace ringload::inline v0
