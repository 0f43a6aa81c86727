// SPDX-License-Identifier: Apache-2.0
#pragma once

// Objects of a checkpoint that cannot be loaded: which of them a selection chooses. Pure.

#include <optional>
#include <ringload/catalog.hpp>
#include <ringload/selection.hpp>
#include <string_view>

#include "base/fault.hpp"

namespace ringload::inline v0 {

fault fault_of(const unreadable_info& object);

// The object of that name, or the object that has a part of that name; null: there is none.
const unreadable_info* unreadable_named(const catalog& from, std::string_view name) noexcept;

// Why that selection cannot be loaded: it chooses an object that cannot be. Names that a selection
// lists are not looked at here: see selection_context::find.
std::optional<fault> unreadable_chosen(const catalog& from, const detail::requests& wanted);

}  // namespace ringload::inline v0
