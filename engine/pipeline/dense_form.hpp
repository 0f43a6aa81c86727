// SPDX-License-Identifier: Apache-2.0
#pragma once

// A tensor's bytes as a file holds them, dense and row-major, piece by piece.

#include <ringload/save.hpp>

#include "archive/zt_archive.hpp"
#include "core/fault.hpp"

namespace ringload::inline v0::detail {

// How many they are; checks that the view describes a tensor. Faults are without a place.
result<std::uint64_t> dense_bytes(const tensor_view& of);

// The view outlives what is returned.
result<readable_bytes> dense_form(const tensor_view& of);

}  // namespace ringload::inline v0::detail
